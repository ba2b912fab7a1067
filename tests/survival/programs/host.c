/* Opens parts that call MPI, one after the other, with a flag (local, global or deep), calls them, closes them and opens them again:
 * FLAG PART... With -DBRINGS it is not linked with MPI, and the first part initialises it and the last ends it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef BRINGS
#include <mpi.h>
#endif

static void *part(const char *path, const char *flag) {
    int more = !strcmp(flag, "global") ? RTLD_GLOBAL : !strcmp(flag, "deep") ? RTLD_DEEPBIND : RTLD_LOCAL;
    void *opened = dlopen(path, RTLD_NOW | more);
    if (!opened) fprintf(stderr, "%s\n", dlerror());
    if (!opened) exit(3);
    return opened;
}

static void call(void *part, const char *function) {
    void (*known)(void) = (void (*)(void))dlsym(part, function);
    if (known) known();
}

int main(int argc, char **argv) {
#ifdef BRINGS
    call(part(argv[2], argv[1]), "begin_");
#else
    MPI_Init(&argc, &argv);
#endif
    for (int i = 2; i < argc; i++)
        for (int times = 0; times < 2; times++) {
            void *opened = part(argv[i], argv[1]);
            call(opened, "work_");
            dlclose(opened);
        }
#ifdef BRINGS
    call(part(argv[2], argv[1]), "finish_");
#else
    MPI_Finalize();
#endif
    puts("whole");
    return 0;
}
