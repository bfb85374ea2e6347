/*
 * src/ranks/mpi/wire.h - the side channel of watch.c: TCP connections from every rank to rank 0,
 * and the short notes they carry.
 *
 * Rank 0 listens and sends an invitation over MPI: its addresses, and a secret that every
 * connection must present.
 */
#ifndef OLE_SRC_RANKS_MPI_WIRE_H
#define OLE_SRC_RANKS_MPI_WIRE_H

#include "ole/base.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { OLE_WIRE_ADDRESSES = 8, OLE_WIRE_SECRET = 33 };

typedef struct ole_invitation {
    struct sockaddr_storage addresses[OLE_WIRE_ADDRESSES];
    int count;
    char secret[OLE_WIRE_SECRET]; /* 128 random bits in hexadecimal */
} ole_invitation;

typedef enum ole_note_kind {
    OLE_NOTE_HELLO = 1, /* the first one: my rank and the secret */
    OLE_NOTE_BEAT,      /* I am here */
    OLE_NOTE_FAIL,      /* a rank is ending, for the reason in the text */
    OLE_NOTE_LOST,      /* all ranks end, for the reason in the text */
    OLE_NOTE_BYE,       /* I leave, all is well */
} ole_note_kind;

typedef struct ole_note {
    uint16_t kind, length; /* of the text */
    char text[508];        /* terminated */
} ole_note;

/* One end of a connection, and the part of the next note that has arrived. */
typedef struct ole_wire {
    int fd; /* -1: none */
    size_t have;
    ole_note note;
} ole_wire;

/*
 * Listens for the others, on the loopback interface only if all are on this host.  The caller
 * closes the socket *listener.
 */
ole_status ole_wire_listen(bool same_host, int *listener, ole_invitation *invitation,
                           ole_error *error);

/* Accepts one connection that presents the secret: its rank, or -1 after a timeout. */
int ole_wire_accept(int listener, const ole_invitation *invitation, int size, double seconds,
                    ole_wire *wire);

/* Connects to rank 0, trying each of its addresses. */
ole_status ole_wire_connect(const ole_invitation *invitation, int rank, ole_wire *wire,
                            ole_error *error);

/* Sends a note without waiting: one that does not fit is dropped; silence then reveals the loss. */
void ole_wire_send(ole_wire *wire, ole_note_kind kind, const char *text);

/* Receives the next note: 1; 0 if none has arrived, -1 if the other end is gone. */
int ole_wire_receive(ole_wire *wire, ole_note *note);

void ole_wire_close(ole_wire *wire);

#endif
