/* What C's library reads and writes of a buffer that a pending receive has, a marked line each; with "late" behind the wait. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rising(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

static void used(char *b, char *other, FILE *file) {
    printf("%d %s\n", 4, b); /* LOAD */
    sprintf(other, "%.3s", b); /* LOAD */
    fwrite(b, 1, 5, file); /* LOAD */
    strcpy(b, "x"); /* STORE */
    if (memcmp(b, other, 2) > 1) puts("?"); /* LOAD */
    if (strcmp(other, b) > 99) puts("?"); /* LOAD */
    strncpy(b, other, 3); /* STORE */
    snprintf(b, 8, "%d", 12); /* STORE */
    fprintf(file, "%.*s", 2, b); /* LOAD */
    puts(b); /* LOAD */
    strcat(b, "y"); /* LOAD STORE */
    if (read(fileno(file), b, 0)) puts("?");
    if (write(fileno(file), b, 3) != 3) puts("?"); /* LOAD */
    fflush(file);
    rewind(file);
    if (fread(b, 1, 4, file) != 4) puts("?"); /* STORE */
    if (read(fileno(file), b, 2) > 9) puts("?");
    qsort(b, 8, 1, rising); /* LOAD STORE */
    memset(b + 8, 'z', 2); /* STORE */
}

int main(int argc, char **argv) {
    char buffer[64] = "hello", other[64] = "";
    int rank, late = argc > 1 && !strcmp(argv[1], "late");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) MPI_Send(buffer, 64, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    else {
        MPI_Request request;
        FILE *file = tmpfile();
        if (!file) MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Irecv(buffer, 64, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
        if (!late) used(buffer, other, file);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (late) used(buffer, other, file);
        fclose(file);
    }
    MPI_Finalize();
    return 0;
}
