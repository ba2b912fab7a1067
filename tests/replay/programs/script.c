/* Does what a script says, one call of MPI a line; a rank's lines begin with its number. Each message carries its
 * number, and each rank prints at its end "rank line slot number" for every message that it got (slot -1: a call that
 * got the message itself). Prints at the end only, so that a replay that is stopped early prints nothing. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64, MOST = 40000 };

static MPI_Comm comms[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
static MPI_Request requests[SLOTS];
static int *buffers[SLOTS], *out[SLOTS], *plain;
static char got[1 << 16];
static int rank, line, length;

static void note(int slot, int message) {
    length += snprintf(got + length, sizeof got - (size_t)length, "%d %d %d %d\n", rank, line, slot, message);
}

int main(int argc, char **argv) {
    char text[256], op[16];
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int a[5], used = 0, found[2] = {0, 0};
    FILE *script = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!script) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comms[0] = MPI_COMM_WORLD;
    plain = calloc(MOST, sizeof *plain);
    for (int i = 0; i < SLOTS; i++) requests[i] = MPI_REQUEST_NULL;
    while (fgets(text, sizeof text, script)) {
        int whose, n = 0;
        memset(a, 0, sizeof a);
        if (sscanf(text, "%d %15s%n", &whose, op, &n) < 2 || whose != rank) continue;
        sscanf(text + n, "%d %d %d %d %d", &a[0], &a[1], &a[2], &a[3], &a[4]);
        MPI_Comm comm = comms[a[0]];
        int source = a[1] < 0 ? MPI_ANY_SOURCE : a[1], tag = a[2] < 0 ? MPI_ANY_TAG : a[2];
#define IS(word) (strcmp(op, word) == 0)
        if (IS("split")) MPI_Comm_split(MPI_COMM_WORLD, a[1] ? 1 : MPI_UNDEFINED, -rank, &comms[1]);
        else if (IS("send") || IS("ssend")) { /* comm dest tag count number */
            plain[0] = a[4];
            (IS("send") ? MPI_Send : MPI_Ssend)(plain, a[3], MPI_INT, a[1], a[2], comm);
        } else if (IS("isend")) {
            out[used] = calloc((size_t)a[3], sizeof(int));
            out[used][0] = a[4];
            MPI_Isend(out[used], a[3], MPI_INT, a[1], a[2], comm, &requests[used]);
            used++;
        } else if (IS("recv")) { /* comm source tag */
            MPI_Recv(plain, MOST, MPI_INT, source, tag, comm, &status);
            note(-1, plain[0]);
        } else if (IS("irecv")) {
            buffers[used] = calloc(MOST, sizeof(int));
            MPI_Irecv(buffers[used], MOST, MPI_INT, source, tag, comm, &requests[used]);
            used++;
        } else if (IS("waitany")) {
            int which;
            MPI_Waitany(used, requests, &which, &status);
            if (which >= 0 && buffers[which]) note(which, buffers[which][0]);
        } else if (IS("waitall")) {
            for (int i = 0; i < used; i++)
                if (requests[i] == MPI_REQUEST_NULL) buffers[i] = NULL;
            MPI_Waitall(used, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < used; i++)
                if (buffers[i]) note(i, buffers[i][0]), buffers[i] = NULL;
            used = 0;
        } else if (IS("probe") || IS("poll")) {
            for (int flag = 0; !flag;)
                if (IS("probe")) MPI_Probe(source, tag, comm, &status), flag = 1;
                else MPI_Iprobe(source, tag, comm, &flag, &status);
            found[0] = status.MPI_SOURCE, found[1] = status.MPI_TAG;
        } else if (IS("take")) {
            MPI_Recv(plain, MOST, MPI_INT, found[0], found[1], comm, &status);
            note(-1, plain[0]);
        } else if (IS("mprobe")) MPI_Mprobe(source, tag, comm, &message, &status);
        else if (IS("mrecv")) {
            MPI_Mrecv(plain, MOST, MPI_INT, &message, &status);
            note(-1, plain[0]);
        } else if (IS("barrier")) MPI_Barrier(comm);
        else if (IS("bcast")) MPI_Bcast(plain, 2, MPI_INT, a[1], comm); /* comm root */
        else if (IS("allreduce")) MPI_Allreduce(plain, plain + 10, 1, MPI_INT, MPI_MAX, comm);
        else if (IS("reduce")) MPI_Reduce(plain, plain + 10, 1, MPI_INT, MPI_MAX, a[1], comm);
        else if (IS("gather")) MPI_Gather(plain, 1, MPI_INT, plain + 10, 1, MPI_INT, a[1], comm);
        else if (IS("scan")) MPI_Scan(plain, plain + 10, 1, MPI_INT, MPI_MAX, comm);
        else return fprintf(stderr, "no such call: %s\n", op), 2;
        line++;
    }
    fputs(got, stdout);
    MPI_Finalize();
    return 0;
}
