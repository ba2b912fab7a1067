/* The C program of the matrix: everything in scenario.h, called from C. */
#include "scenario.h"

int main(int argc, char **argv) {
    begin();
    everything(argc > 1 ? argv[1] : "cells.dat");
    CALL0(MPI_Finalize);
    return 0;
}
