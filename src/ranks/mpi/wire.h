/*
 * src/ranks/mpi/wire.h - the side channel of watch.c: TCP connections from every rank to rank 0,
 * and the short notes that go over them.
 *
 * Rank 0 listens and hands out an invitation (by MPI): where it can be reached, and a secret that
 * whoever connects has to know.
 */
#ifndef OLE_SRC_RANKS_MPI_WIRE_H
#define OLE_SRC_RANKS_MPI_WIRE_H

#include "ole/base.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { OLE_WIRE_ADDRESSES = 8, OLE_WIRE_SECRET = 16 };

typedef struct ole_invitation {
    struct sockaddr_storage addresses[OLE_WIRE_ADDRESSES];
    int count;
    unsigned char secret[OLE_WIRE_SECRET];
} ole_invitation;

/* What a note says. */
typedef enum ole_note_kind {
    OLE_NOTE_BEAT = 1, /* I am here */
    OLE_NOTE_FAIL,     /* to rank 0: I end, for the reason in the text; from it: a rank does so */
    OLE_NOTE_LOST,     /* everyone ends, for the reason in the text */
    OLE_NOTE_BYE,      /* I leave, all is well */
} ole_note_kind;

typedef struct ole_note {
    uint16_t kind, length; /* of the text */
    char text[508];        /* terminated */
} ole_note;

/* One end of a connection, and what has arrived of the next note. */
typedef struct ole_wire {
    int fd; /* -1: none */
    size_t have;
    ole_note note;
} ole_wire;

/*
 * Listens for the others: on the loopback interface only where all are on this host.  The socket is
 * in *listener, to be closed by the caller.
 */
ole_status ole_wire_listen(bool same_host, int *listener, ole_invitation *invitation,
                           ole_error *error);

/* Takes one connection of a rank that knows the secret: its rank, or -1 when none came in time. */
int ole_wire_accept(int listener, const ole_invitation *invitation, int size, double seconds,
                    ole_wire *wire);

/* Connects to rank 0, trying each of its addresses. */
ole_status ole_wire_connect(const ole_invitation *invitation, int rank, ole_wire *wire,
                            ole_error *error);

/* Sends a note and never waits: one that does not fit is dropped, and the silence will tell. */
void ole_wire_send(ole_wire *wire, ole_note_kind kind, const char *text);

/* The next note that has arrived: 1, 0 for none yet, -1 when the other end is gone. */
int ole_wire_receive(ole_wire *wire, ole_note *note);

void ole_wire_close(ole_wire *wire);

#endif
