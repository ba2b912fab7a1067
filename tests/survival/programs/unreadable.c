/* Calls each function that moves data with memory of a device (standin.c): MODE, and whether types have gaps. calls.inc is
 * written by unreadable.py. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT = 1 << 16 };
extern char *device;
int device_make(const char *mode, size_t bytes);
char *device_host(void);

static MPI_Comm comm, ring;
static MPI_Datatype type, int_or_gaps;
static MPI_Request request, other;
static MPI_Message message;
static MPI_Win window;
static MPI_File file;
static int scratch[64], made;
#define ARRAYS(name, type)                                                                                             \
    static const type fours_##name[4] = {4, 4, 4, 4}, places_##name[4] = {0, 64, 128, 192},                            \
                      bytes_##name[4] = {0, 256, 512, 768};
ARRAYS(int, int)
ARRAYS(count, MPI_Count)
ARRAYS(aint, MPI_Aint)
static MPI_Datatype types[4];

static void taken(void) { MPI_Irecv(scratch, 64, MPI_INT, 0, 5, comm, &other); }
static void given(void) { MPI_Isend(scratch, 4, MPI_INT, 0, 5, comm, &other); }

#define CALL(name, basic, ...)                                                                                         \
    if (!basic || !gaps) {                                                                                             \
        comm = strstr(#name, "eighbor") ? ring : MPI_COMM_SELF;                                                        \
        type = gaps ? int_or_gaps : MPI_INT;                                                                           \
        for (int i = 0; i < 4; i++) types[i] = type;                                                                   \
        MPI_File_seek(file, 0, MPI_SEEK_SET);                                                                          \
        for (int times = 0; times < 2; times++) {                                                                      \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        made++;                                                                                                        \
    }

static void fences(void) {
    MPI_Win own;
    int one = 1;
    MPI_Win_create(device, SLOT, 1, MPI_INFO_NULL, MPI_COMM_SELF, &own);
    for (int i = 0; i < 3; i++) {
        MPI_Win_fence(0, own);
        MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, own);
    }
    MPI_Win_fence(0, own);
    MPI_Win_free(&own);
}

int main(int argc, char **argv) {
    int gaps = argc > 2, wide = 1, round = 1;
    static char attached[1 << 16];
    static int shown[1024];
    MPI_Init(&argc, &argv);
    if (!device_make(argv[1], 8 * SLOT)) {
        puts("no such memory");
        MPI_Finalize();
        return 0;
    }
    for (int i = 0; i < 8 * SLOT / 4; i++) ((int *)device_host())[i] = i;
    MPI_Buffer_attach(attached, sizeof attached);
    MPI_Cart_create(MPI_COMM_SELF, 1, &wide, &round, 0, &ring);
    MPI_Type_vector(2, 1, 2, MPI_INT, &int_or_gaps);
    MPI_Type_commit(&int_or_gaps);
    MPI_Win_create(shown, sizeof shown, 1, MPI_INFO_NULL, MPI_COMM_SELF, &window);
    MPI_File_open(MPI_COMM_SELF, "file", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, 0, shown, 1024, MPI_INT, MPI_STATUS_IGNORE);
#include "calls.inc"
    fences();
    MPI_File_close(&file);
    MPI_Win_free(&window);
    MPI_Comm_free(&ring);
    MPI_Type_free(&int_or_gaps);
    MPI_Buffer_detach(attached, &wide);
    long sum = 0;
    for (int i = 0; i < 8 * SLOT / 4; i++) sum += ((int *)device_host())[i];
    MPI_Finalize();
    printf("%d functions, sum %ld\n", made, sum);
    return 0;
}
