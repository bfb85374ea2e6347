/* src/ranks/mpi/wire.c - sockets of the side channel. */
#include "ranks/mpi/wire.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { HEADER = offsetof(ole_note, text) };

static const double connect_seconds = 5, hello_seconds = 2;

/* ---- Rank 0 ------------------------------------------------------------------------------- */

static void add_address(ole_invitation *invitation, const struct sockaddr *address, uint16_t port) {
    if (invitation->count == OLE_WIRE_ADDRESSES) return;
    struct sockaddr_storage *to = &invitation->addresses[invitation->count++];
    if (address->sa_family == AF_INET) {
        memcpy(to, address, sizeof(struct sockaddr_in));
        ((struct sockaddr_in *)to)->sin_port = port;
    } else {
        memcpy(to, address, sizeof(struct sockaddr_in6));
        ((struct sockaddr_in6 *)to)->sin6_port = port;
    }
}

/* Interfaces that are up and reach other hosts; an IPv6 address of the link alone does not do. */
static void add_interfaces(ole_invitation *invitation, bool with_ipv6, uint16_t port) {
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) return;
    for (int family = AF_INET; family; family = family == AF_INET && with_ipv6 ? AF_INET6 : 0)
        for (struct ifaddrs *i = all; i; i = i->ifa_next) {
            if (!i->ifa_addr || i->ifa_addr->sa_family != family) continue;
            if (!(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK) continue;
            if (family == AF_INET6 &&
                IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr))
                continue;
            add_address(invitation, i->ifa_addr, port);
        }
    freeifaddrs(all);
}

/* A socket that listens at `address`, whose port is filled in. -1: it failed. */
static int listen_at(struct sockaddr *address, socklen_t length) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;
    if (fd < 0) return -1;
    if (address->sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address, length) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, address, &length) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

ole_status ole_wire_listen(bool same_host, int *listener, ole_invitation *invitation,
                           ole_error *error) {
    *invitation = (ole_invitation){0};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(same_host ? INADDR_LOOPBACK : INADDR_ANY)};
    *listener = same_host ? -1 : listen_at((struct sockaddr *)&v6, sizeof v6);
    bool with_ipv6 = *listener >= 0;
    if (!with_ipv6) *listener = listen_at((struct sockaddr *)&v4, sizeof v4);
    if (*listener < 0)
        return ole_fail(error, OLE_ERROR_IO, "ranks: cannot listen for the other ranks: %s",
                        strerror(errno));
    if (same_host)
        memcpy(&invitation->addresses[invitation->count++], &v4, sizeof v4);
    else
        add_interfaces(invitation, with_ipv6, with_ipv6 ? v6.sin6_port : v4.sin_port);
    uint64_t random[2];
    bool secret = getrandom(random, sizeof random, 0) == (ssize_t)sizeof random;
    snprintf(invitation->secret, OLE_WIRE_SECRET, "%016" PRIx64 "%016" PRIx64, random[0],
             random[1]);
    if (invitation->count > 0 && secret) return OLE_OK;
    close(*listener);
    *listener = -1;
    return ole_fail(error, OLE_ERROR_IO, "ranks: %s",
                    secret ? "this host has no network interface that other hosts can reach"
                           : "the system provides no random numbers");
}

/* Waits until `events` hold; false when they did not in time. */
static bool await(int fd, short events, double deadline) {
    for (;;) {
        double left = deadline - ole_clock();
        if (left <= 0) return false;
        struct pollfd p = {.fd = fd, .events = events};
        int ready = poll(&p, 1, (int)(left * 1e3) + 1);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

static ole_wire open_wire(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return (ole_wire){.fd = fd};
}

/* The rank at the other end, or -1 for somebody who is none. */
static int read_hello(ole_wire *wire, const ole_invitation *invitation, int size) {
    double deadline = ole_clock() + hello_seconds;
    ole_note note = {0};
    char secret[OLE_WIRE_SECRET] = "";
    int rank = -1;
    while (ole_wire_receive(wire, &note) == 0 && await(wire->fd, POLLIN, deadline))
        ;
    bool known = note.kind == OLE_NOTE_HELLO && sscanf(note.text, "%d %32s", &rank, secret) == 2 &&
                 strcmp(secret, invitation->secret) == 0;
    return known && rank > 0 && rank < size ? rank : -1;
}

int ole_wire_accept(int listener, const ole_invitation *invitation, int size, double seconds,
                    ole_wire *wire) {
    double deadline = ole_clock() + seconds;
    while (await(listener, POLLIN, deadline)) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        *wire = open_wire(fd);
        int rank = read_hello(wire, invitation, size);
        if (rank > 0) return rank;
        ole_wire_close(wire);
    }
    return -1;
}

/* ---- The others --------------------------------------------------------------------------- */

/* 0, or errno. */
static int try_address(const struct sockaddr_storage *address, int *fd) {
    socklen_t length =
        address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    *fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) return errno;
    int reason = connect(*fd, (const struct sockaddr *)address, length) == 0 ? 0 : errno;
    if (reason == EINPROGRESS) {
        socklen_t room = sizeof reason;
        if (!await(*fd, POLLOUT, ole_clock() + connect_seconds))
            reason = ETIMEDOUT;
        else if (getsockopt(*fd, SOL_SOCKET, SO_ERROR, &reason, &room) != 0)
            reason = errno;
    }
    if (reason == 0) return 0;
    close(*fd);
    *fd = -1;
    return reason;
}

ole_status ole_wire_connect(const ole_invitation *invitation, int rank, ole_wire *wire,
                            ole_error *error) {
    char words[16 + OLE_WIRE_SECRET], host[INET6_ADDRSTRLEN] = "?", port[8] = "?";
    snprintf(words, sizeof words, "%d %s", rank, invitation->secret);
    int reason = 0, fd;
    for (int i = 0; i < invitation->count; i++) {
        reason = try_address(&invitation->addresses[i], &fd);
        if (reason != 0) continue;
        *wire = open_wire(fd);
        ole_wire_send(wire, OLE_NOTE_HELLO, words);
        return OLE_OK;
    }
    getnameinfo((const struct sockaddr *)&invitation->addresses[0], sizeof invitation->addresses[0],
                host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    return ole_fail(error, OLE_ERROR_IO,
                    "ranks: cannot connect to rank 0 at %s port %s: %s; ranks need TCP connections "
                    "between their hosts",
                    host, port, strerror(reason));
}

/* ---- Notes -------------------------------------------------------------------------------- */

void ole_wire_send(ole_wire *wire, ole_note_kind kind, const char *text) {
    if (wire->fd < 0) return;
    ole_note note = {.kind = (uint16_t)kind};
    snprintf(note.text, sizeof note.text, "%s", text);
    note.length = (uint16_t)strlen(note.text);
    ssize_t sent = send(wire->fd, &note, HEADER + note.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
}

int ole_wire_receive(ole_wire *wire, ole_note *note) {
    for (;;) {
        size_t want = HEADER;
        if (wire->have >= HEADER) {
            if (wire->note.length >= sizeof wire->note.text) return -1;
            want += wire->note.length;
        }
        if (wire->have >= HEADER && wire->have == want) {
            *note = wire->note;
            note->text[note->length] = '\0';
            wire->have = 0;
            return 1;
        }
        ssize_t got =
            recv(wire->fd, (char *)&wire->note + wire->have, want - wire->have, MSG_DONTWAIT);
        if (got > 0)
            wire->have += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
        else
            return 0;
    }
}

void ole_wire_close(ole_wire *wire) {
    if (wire->fd >= 0) close(wire->fd);
    wire->fd = -1;
}
