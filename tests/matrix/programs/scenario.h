/* What the C and the C++ program call: every family of MPI, on three ranks. Each call stands on a line of its own. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "log.h"

enum { N = 4 };

static int rank, size, next, previous;
static const MPI_Comm world = MPI_COMM_WORLD;

static void point_to_point(void) {
    int out[N] = {rank, 1, 2, 3}, in[N] = {0}, more[N] = {0}, count = 0, flag = 0, index = 0, done = 0;
    int indices[2] = {0, 0};
    static char attached[4096];
    void *detached = NULL;
    int detached_size = 0;
    MPI_Status status, statuses[2];
    MPI_Request request, requests[2];

    if (rank == 0) {
        CALL(MPI_Send, out, N, MPI_INT, next, 7, world);
        CALL(MPI_Recv, in, N, MPI_INT, MPI_ANY_SOURCE, 7, world, &status);
    } else {
        CALL(MPI_Recv, in, N, MPI_INT, previous, MPI_ANY_TAG, world, &status);
        CALL(MPI_Send, out, N, MPI_INT, next, 7, world);
    }
    CALL(MPI_Get_count, &status, MPI_INT, &count);
    CALL(MPI_Recv, in, N, MPI_INT, MPI_PROC_NULL, 3, world, MPI_STATUS_IGNORE);

    if (rank == 0) CALL(MPI_Ssend, out, 2, MPI_INT, 1, 8, world);
    if (rank == 1) CALL(MPI_Recv, in, N, MPI_INT, 0, 8, world, &status);
    if (rank == 1) CALL(MPI_Get_elements, &status, MPI_INT, &count);

    CALL(MPI_Buffer_attach, (void *)attached, (int)sizeof attached);
    CALL(MPI_Bsend, out, N, MPI_INT, next, 9, world);
    CALL(MPI_Recv, in, N, MPI_INT, previous, 9, world, MPI_STATUS_IGNORE);
    CALL(MPI_Ibsend, out, 1, MPI_INT, next, 10, world, &request);
    CALL(MPI_Recv, in, N, MPI_INT, previous, 10, world, &status);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    CALL(MPI_Buffer_detach, &detached, &detached_size);

    CALL(MPI_Irecv, in, N, MPI_INT, previous, 11, world, &requests[0]);
    CALL(MPI_Irecv, more, N, MPI_INT, previous, 12, world, &requests[1]);
    CALL(MPI_Barrier, world);
    CALL(MPI_Rsend, out, N, MPI_INT, next, 11, world);
    CALL(MPI_Irsend, out, N - 1, MPI_INT, next, 12, world, &request);
    CALL(MPI_Waitall, 2, requests, statuses);
    CALL(MPI_Wait, &request, &status);

    CALL(MPI_Irecv, in, N, MPI_INT, MPI_ANY_SOURCE, 13, world, &requests[0]);
    CALL(MPI_Isend, out, N, MPI_INT, next, 13, world, &requests[1]);
    CALL(MPI_Waitany, 2, requests, &index, &status);
    CALL(MPI_Waitany, 2, requests, &index, &status);
    CALL(MPI_Waitany, 2, requests, &index, MPI_STATUS_IGNORE);

    CALL(MPI_Irecv, in, N, MPI_INT, previous, 14, world, &requests[0]);
    CALL(MPI_Issend, out, N, MPI_INT, next, 14, world, &requests[1]);
    for (int left = 2; left > 0; left -= count) CALL(MPI_Waitsome, 2, requests, &count, indices, statuses);

    CALL(MPI_Irecv, in, N, MPI_INT, previous, 15, world, &request);
    CALL(MPI_Send, out, 3, MPI_INT, next, 15, world);
    for (flag = 0; !flag;) CALL(MPI_Test, &request, &flag, &status);
    CALL(MPI_Get_count, &status, MPI_INT, &count);

    CALL(MPI_Irecv, in, N, MPI_INT, previous, 16, world, &requests[0]);
    CALL(MPI_Isend, out, N, MPI_INT, next, 16, world, &requests[1]);
    for (flag = 0; !flag;) CALL(MPI_Testall, 2, requests, &flag, MPI_STATUSES_IGNORE);

    CALL(MPI_Irecv, in, N, MPI_INT, previous, 17, world, &requests[0]);
    CALL(MPI_Isend, out, N, MPI_INT, next, 17, world, &requests[1]);
    for (done = 0; done < 2; done += flag) CALL(MPI_Testany, 2, requests, &index, &flag, &status);

    CALL(MPI_Irecv, in, N, MPI_INT, previous, 18, world, &requests[0]);
    CALL(MPI_Isend, out, N, MPI_INT, next, 18, world, &requests[1]);
    for (done = 0; done < 2; done += count) CALL(MPI_Testsome, 2, requests, &count, indices, statuses);

    /* Two small sends under way at once: libraries may give both one handle. */
    CALL(MPI_Isend, out, 1, MPI_INT, next, 19, world, &requests[0]);
    CALL(MPI_Isend, out, 1, MPI_INT, next, 20, world, &requests[1]);
    CALL(MPI_Recv, in, 1, MPI_INT, previous, 20, world, MPI_STATUS_IGNORE);
    CALL(MPI_Recv, in, 1, MPI_INT, previous, 19, world, MPI_STATUS_IGNORE);
    CALL(MPI_Waitall, 2, requests, statuses);

    CALL(MPI_Sendrecv, out, N, MPI_INT, next, 21, in, N, MPI_INT, previous, 21, world, &status);
    CALL(MPI_Sendrecv_replace, in, 2, MPI_INT, previous, 22, next, 22, world, &status);

    CALL(MPI_Irecv, in, N, MPI_INT, previous, 99, world, &request);
    CALL(MPI_Cancel, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Test_cancelled, &status, &flag);

    CALL(MPI_Isend, out, N, MPI_INT, next, 23, world, &request);
    CALL(MPI_Recv, in, N, MPI_INT, previous, 23, world, MPI_STATUS_IGNORE);
    for (flag = 0; !flag;) CALL(MPI_Request_get_status, request, &flag, MPI_STATUS_IGNORE);
    CALL(MPI_Request_free, &request);
#if MPI_VERSION >= 4
    CALL(MPI_Isendrecv, out, N, MPI_INT, next, 24, in, N, MPI_INT, previous, 24, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Isendrecv_replace, in, N, MPI_INT, next, 25, previous, 25, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Send_c, out, (MPI_Count)N, MPI_INT, next, 26, world);
    CALL(MPI_Recv_c, in, (MPI_Count)N, MPI_INT, previous, 26, world, &status);
#endif
}

static void probes(void) {
    int out[N] = {rank, 5, 6, 7}, in[N] = {0}, flag = 0, count = 0;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request;

    if (rank != 0) {
        CALL(MPI_Send, out, rank, MPI_INT, 0, 30, world);
        CALL(MPI_Send, out, rank + 1, MPI_INT, 0, 31, world);
        CALL(MPI_Send, out, rank + 1, MPI_INT, 0, 32, world);
        CALL(MPI_Send, out, rank + 2, MPI_INT, 0, 33, world);
    } else {
        for (int i = 1; i < size; i++) {
            CALL(MPI_Probe, MPI_ANY_SOURCE, 30, world, &status);
            CALL(MPI_Get_count, &status, MPI_INT, &count);
            CALL(MPI_Recv, in, count, MPI_INT, status.MPI_SOURCE, 30, world, MPI_STATUS_IGNORE);
            for (flag = 0; !flag;) CALL(MPI_Iprobe, i, 31, world, &flag, &status);
            CALL(MPI_Recv, in, N, MPI_INT, i, 31, world, &status);
            CALL(MPI_Mprobe, MPI_ANY_SOURCE, 32, world, &message, &status);
            CALL(MPI_Mrecv, in, N, MPI_INT, &message, &status);
            CALL(MPI_Get_count, &status, MPI_INT, &count);
            for (flag = 0; !flag;) CALL(MPI_Improbe, i, 33, world, &flag, &message, &status);
            CALL(MPI_Imrecv, in, N, MPI_INT, &message, &request);
            CALL(MPI_Wait, &request, &status);
        }
    }
    CALL(MPI_Barrier, world);
}

static void my_sum(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void collectives(void) {
    int out[12] = {rank, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, in[12] = {0}, pair[2] = {rank, 3}, best[2] = {0, 0};
    int counts[3] = {1, 2, 1}, starts[3] = {0, 1, 3}, turned[3] = {1, 1, 1}, turned_starts[3] = {0, 2, 4};
    int bytes[3] = {0, 8, 16}, commute = 0;
    MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Op op = MPI_OP_NULL;
    MPI_Request request;
    MPI_Status status;

    CALL(MPI_Barrier, world);
    CALL(MPI_Bcast, in, N, MPI_INT, 1, world);
    CALL(MPI_Gather, out, 2, MPI_INT, in, 2, MPI_INT, 2, world);
    CALL(MPI_Gatherv, out, counts[rank], MPI_INT, in, counts, starts, MPI_INT, 0, world);
    CALL(MPI_Scatter, out, 1, MPI_INT, in, 1, MPI_INT, 1, world);
    CALL(MPI_Scatterv, out, counts, starts, MPI_INT, in, counts[rank], MPI_INT, 2, world);
    CALL(MPI_Allgather, out, 1, MPI_INT, in, 1, MPI_INT, world);
    CALL(MPI_Allgatherv, out, counts[rank], MPI_INT, in, counts, starts, MPI_INT, world);
    CALL(MPI_Alltoall, out, 1, MPI_INT, in, 1, MPI_INT, world);
    CALL(MPI_Alltoallv, out, turned, turned_starts, MPI_INT, in, turned, turned_starts, MPI_INT, world);
    CALL(MPI_Alltoallw, out, turned, bytes, types, in, turned, bytes, types, world);
    CALL(MPI_Reduce, out, in, N, MPI_INT, MPI_SUM, 1, world);
    CALL(MPI_Allreduce, pair, best, 1, MPI_2INT, MPI_MAXLOC, world);
    CALL(MPI_Allreduce, MPI_IN_PLACE, in, N, MPI_INT, MPI_MAX, world);
    CALL(MPI_Scan, out, in, N, MPI_INT, MPI_SUM, world);
    CALL(MPI_Exscan, out, in, N, MPI_INT, MPI_SUM, world);
    CALL(MPI_Reduce_scatter, out, in, counts, MPI_INT, MPI_SUM, world);
    CALL(MPI_Reduce_scatter_block, out, in, 2, MPI_INT, MPI_SUM, world);
    CALL(MPI_Op_create, my_sum, 1, &op);
    CALL(MPI_Op_commutative, op, &commute);
    CALL(MPI_Allreduce, out, in, N, MPI_INT, op, world);
    CALL(MPI_Reduce_local, out, in, N, MPI_INT, op);
    CALL(MPI_Op_free, &op);

    CALL(MPI_Ibarrier, world, &request);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    CALL(MPI_Ibcast, in, N, MPI_INT, 2, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Igather, out, 1, MPI_INT, in, 1, MPI_INT, 0, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Igatherv, out, counts[rank], MPI_INT, in, counts, starts, MPI_INT, 1, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Iscatterv, out, counts, starts, MPI_INT, in, counts[rank], MPI_INT, 0, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Iallgather, out, 1, MPI_INT, in, 1, MPI_INT, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Ialltoall, out, 1, MPI_INT, in, 1, MPI_INT, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Ialltoallv, out, turned, turned_starts, MPI_INT, in, turned, turned_starts, MPI_INT, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Ireduce, out, in, N, MPI_INT, MPI_MAX, 0, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Iallreduce, out, in, N, MPI_INT, MPI_SUM, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Iscan, out, in, N, MPI_INT, MPI_SUM, world, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_Ireduce_scatter, out, in, counts, MPI_INT, MPI_SUM, world, &request);
    CALL(MPI_Wait, &request, &status);
}

static void datatypes(void) {
    int in[32] = {0}, out[32] = {rank, 1, 2, 3}, lengths[2] = {1, 2}, places[2] = {0, 3}, type_size = 0, position = 0, packed_size = 0;
    int whole[2] = {4, 6}, part[2] = {2, 3}, from[2] = {1, 2}, n_ints = 0, n_addresses = 0, n_types = 0, combiner = 0;
    int contents[3] = {0, 0, 0};
    MPI_Aint bytes[2] = {0, 8}, lb = 0, extent = 0, address = 0;
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, inner[1] = {MPI_DATATYPE_NULL};
    MPI_Datatype line = MPI_DATATYPE_NULL, column = MPI_DATATYPE_NULL, record = MPI_DATATYPE_NULL, other = MPI_DATATYPE_NULL;
    char packed[256] = "", name[MPI_MAX_OBJECT_NAME] = "";
    MPI_Status status;
    MPI_Aint none[1] = {0};

    CALL(MPI_Type_contiguous, 3, MPI_INT, &line);
    CALL(MPI_Type_commit, &line);
    CALL(MPI_Type_vector, 3, 1, 4, MPI_INT, &column);
    CALL(MPI_Type_commit, &column);
    CALL(MPI_Type_size, column, &type_size);
    CALL(MPI_Type_get_extent, column, &lb, &extent);
    CALL(MPI_Type_get_envelope, column, &n_ints, &n_addresses, &n_types, &combiner);
    CALL(MPI_Type_get_contents, column, 3, 0, 1, contents, none, inner);
    CALL(MPI_Type_set_name, column, "column");
    CALL(MPI_Type_get_name, column, name, &position);
    CALL(MPI_Sendrecv, out, 1, column, next, 40, in, 1, line, previous, 40, world, &status);
    CALL(MPI_Get_count, &status, line, &type_size);
    CALL(MPI_Type_create_struct, 2, lengths, bytes, parts, &record);
    CALL(MPI_Type_commit, &record);
    CALL(MPI_Type_get_extent, record, &lb, &extent);
    CALL(MPI_Sendrecv, out, 1, record, next, 41, in, 1, record, previous, 41, world, &status);
    CALL(MPI_Type_create_resized, column, (MPI_Aint)0, (MPI_Aint)4, &other);
    CALL(MPI_Type_commit, &other);
    CALL(MPI_Type_get_extent, other, &lb, &extent);
    CALL(MPI_Type_free, &column);
    CALL(MPI_Sendrecv, out, 2, other, next, 42, in, 2, other, previous, 42, world, &status);
    CALL(MPI_Type_free, &other);
    CALL(MPI_Type_create_subarray, 2, whole, part, from, MPI_ORDER_C, MPI_INT, &other);
    CALL(MPI_Type_commit, &other);
    CALL(MPI_Sendrecv, out, 1, other, next, 43, in, 1, other, previous, 43, world, &status);
    CALL(MPI_Type_free, &other);
    CALL(MPI_Type_indexed, 2, lengths, places, MPI_INT, &other);
    CALL(MPI_Type_size, other, &type_size);
    CALL(MPI_Type_free, &other);
    CALL(MPI_Type_create_hvector, 2, 1, (MPI_Aint)24, MPI_INT, &other);
    CALL(MPI_Type_free, &other);
    CALL(MPI_Type_create_hindexed, 2, lengths, bytes, MPI_INT, &other);
    CALL(MPI_Type_free, &other);
    CALL(MPI_Type_create_indexed_block, 2, 1, places, MPI_INT, &other);
    CALL(MPI_Type_free, &other);
    CALL(MPI_Type_dup, record, &other);
    CALL(MPI_Type_free, &other);
    CALL(MPI_Get_address, in, &address);
    CALL(MPI_Pack_size, N, MPI_INT, world, &packed_size);
    position = 0;
    CALL(MPI_Pack, out, N, MPI_INT, (void *)packed, (int)sizeof packed, &position, world);
    CALL(MPI_Sendrecv, (void *)packed, position, MPI_PACKED, next, 44, in, position, MPI_PACKED, previous, 44, world, &status);
    position = 0;
    CALL(MPI_Unpack, in, (int)sizeof in, &position, out, N, MPI_INT, world);
    CALL(MPI_Type_free, &record);
    CALL(MPI_Type_free, &line);
}

static void persistent(void) {
    int out[N] = {rank, 1, 2, 3}, in[N] = {0};
    MPI_Request requests[2], request;
    MPI_Status statuses[2];

    CALL(MPI_Send_init, out, N, MPI_INT, next, 50, world, &requests[0]);
    CALL(MPI_Recv_init, in, N, MPI_INT, MPI_ANY_SOURCE, 50, world, &requests[1]);
    for (int round = 0; round < 2; round++) {
        CALL(MPI_Startall, 2, requests);
        CALL(MPI_Waitall, 2, requests, statuses);
    }
    CALL(MPI_Request_free, &requests[0]);
    CALL(MPI_Request_free, &requests[1]);
    CALL(MPI_Ssend_init, out, 2, MPI_INT, next, 51, world, &request);
    CALL(MPI_Irecv, in, N, MPI_INT, previous, 51, world, &requests[0]);
    CALL(MPI_Start, &request);
    CALL(MPI_Wait, &requests[0], MPI_STATUS_IGNORE);
    CALL(MPI_Wait, &request, &statuses[0]);
    CALL(MPI_Request_free, &request);
#if MPI_VERSION >= 4
    int ready = 0;
    CALL(MPI_Allreduce_init, out, in, N, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request);
    CALL(MPI_Start, &request);
    CALL(MPI_Wait, &request, &statuses[0]);
    CALL(MPI_Request_free, &request);
    CALL(MPI_Psend_init, out, 2, (MPI_Count)2, MPI_INT, next, 52, world, MPI_INFO_NULL, &requests[0]);
    CALL(MPI_Precv_init, in, 2, (MPI_Count)2, MPI_INT, previous, 52, world, MPI_INFO_NULL, &requests[1]);
    CALL(MPI_Startall, 2, requests);
    CALL(MPI_Pready, 0, requests[0]);
    CALL(MPI_Pready_range, 1, 1, requests[0]);
    CALL(MPI_Parrived, requests[1], 0, &ready);
    CALL(MPI_Waitall, 2, requests, statuses);
    CALL(MPI_Request_free, &requests[0]);
    CALL(MPI_Request_free, &requests[1]);
#endif
}

static void one_sided(void) {
    static int memory[8];
    int value = rank + 1, result[2] = {0, 0}, compare = 0, others[1], n = 0, unit = 0, *base = NULL, flag = 0;
    MPI_Aint shared_size = 0;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Group all = MPI_GROUP_NULL, to = MPI_GROUP_NULL, from = MPI_GROUP_NULL;
    MPI_Request request;

    CALL(MPI_Win_create, memory, (MPI_Aint)sizeof memory, (int)sizeof(int), MPI_INFO_NULL, world, &window);
    CALL(MPI_Win_fence, MPI_MODE_NOPRECEDE, window);
    CALL(MPI_Put, &value, 1, MPI_INT, next, (MPI_Aint)rank, 1, MPI_INT, window);
    CALL(MPI_Win_fence, 0, window);
    CALL(MPI_Get, result, 2, MPI_INT, previous, (MPI_Aint)2, 2, MPI_INT, window);
    CALL(MPI_Accumulate, &value, 1, MPI_INT, next, (MPI_Aint)4, 1, MPI_INT, MPI_SUM, window);
    CALL(MPI_Win_fence, MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED, window);

    CALL(MPI_Win_lock, MPI_LOCK_EXCLUSIVE, 0, 0, window);
    CALL(MPI_Fetch_and_op, &value, result, MPI_INT, 0, (MPI_Aint)5, MPI_SUM, window);
    CALL(MPI_Win_flush, 0, window);
    CALL(MPI_Win_unlock, 0, window);
    CALL(MPI_Win_lock, MPI_LOCK_SHARED, next, MPI_MODE_NOCHECK, window);
    CALL(MPI_Get_accumulate, &value, 1, MPI_INT, result, 1, MPI_INT, next, (MPI_Aint)6, 1, MPI_INT, MPI_REPLACE, window);
    CALL(MPI_Win_flush_local, next, window);
    CALL(MPI_Compare_and_swap, &value, &compare, result, MPI_INT, next, (MPI_Aint)7, window);
    CALL(MPI_Win_unlock, next, window);
    CALL(MPI_Win_lock_all, 0, window);
    CALL(MPI_Rput, &value, 1, MPI_INT, next, (MPI_Aint)rank, 1, MPI_INT, window, &request);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    CALL(MPI_Rget, result, 1, MPI_INT, previous, (MPI_Aint)3, 1, MPI_INT, window, &request);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    CALL(MPI_Win_sync, window);
    CALL(MPI_Win_flush_all, window);
    CALL(MPI_Win_unlock_all, window);
    CALL(MPI_Barrier, world);

    CALL(MPI_Win_get_group, window, &all);
    others[0] = next;
    CALL(MPI_Group_incl, all, 1, others, &to);
    others[0] = previous;
    CALL(MPI_Group_incl, all, 1, others, &from);
    CALL(MPI_Win_post, from, 0, window);
    CALL(MPI_Win_start, to, 0, window);
    CALL(MPI_Put, &value, 1, MPI_INT, next, (MPI_Aint)0, 1, MPI_INT, window);
    CALL(MPI_Win_complete, window);
    if (rank) CALL(MPI_Win_wait, window);
    else
        for (flag = 0; !flag;) CALL(MPI_Win_test, window, &flag);
    CALL(MPI_Group_free, &to);
    CALL(MPI_Group_free, &from);
    CALL(MPI_Group_free, &all);
    CALL(MPI_Win_set_name, window, "cells");
    CALL(MPI_Win_free, &window);

    CALL(MPI_Win_allocate, (MPI_Aint)64, 1, MPI_INFO_NULL, world, &base, &window);
    CALL(MPI_Win_free, &window);
    CALL(MPI_Win_allocate_shared, (MPI_Aint)64, 4, MPI_INFO_NULL, world, &base, &window);
    CALL(MPI_Win_shared_query, window, 0, &shared_size, &unit, &base);
    CALL(MPI_Win_free, &window);
    CALL(MPI_Win_create_dynamic, MPI_INFO_NULL, world, &window);
    CALL(MPI_Win_attach, window, memory, (MPI_Aint)sizeof memory);
    CALL(MPI_Win_detach, window, memory);
    CALL(MPI_Win_free, &window);
    (void)n;
}

static void files(const char *path) {
    int out[N] = {rank, 1, 2, 3}, in[N] = {0}, count = 0, atomic = 0, amode = 0;
    MPI_Offset file_size = 0, position = 0;
    MPI_File file = MPI_FILE_NULL;
    MPI_Status status;
    MPI_Request request;
    MPI_Info info = MPI_INFO_NULL;

    CALL(MPI_Info_create, &info);
    CALL(MPI_Info_set, info, "access_style", "write_once");
    CALL(MPI_File_open, world, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
    CALL(MPI_Info_free, &info);
    CALL(MPI_File_set_size, file, (MPI_Offset)0);
    CALL(MPI_File_set_view, file, (MPI_Offset)0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CALL(MPI_File_write_at, file, (MPI_Offset)(N * rank), out, N, MPI_INT, &status);
    CALL(MPI_Get_count, &status, MPI_INT, &count);
    CALL(MPI_File_write_at_all, file, (MPI_Offset)(N * rank), out, N, MPI_INT, MPI_STATUS_IGNORE);
    CALL(MPI_File_sync, file);
    CALL(MPI_Barrier, world);
    CALL(MPI_File_read_at, file, (MPI_Offset)(N * next), in, N, MPI_INT, &status);
    CALL(MPI_Get_count, &status, MPI_INT, &count);
    CALL(MPI_File_seek, file, (MPI_Offset)(N * rank), MPI_SEEK_SET);
    CALL(MPI_File_read_all, file, in, 2, MPI_INT, &status);
    CALL(MPI_File_get_position, file, &position);
    CALL(MPI_File_iwrite_at, file, (MPI_Offset)(N * rank), out, 2, MPI_INT, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_File_iread_at, file, (MPI_Offset)(N * rank), in, 2, MPI_INT, &request);
    CALL(MPI_Wait, &request, &status);
    CALL(MPI_File_get_size, file, &file_size);
    CALL(MPI_File_get_amode, file, &amode);
    CALL(MPI_File_get_atomicity, file, &atomic);
    CALL(MPI_File_close, &file);
    CALL(MPI_Barrier, world);
    if (rank == 0) CALL(MPI_File_delete, path, MPI_INFO_NULL);
}

static void topologies(void) {
    int dims[2] = {0, 1}, periods[2] = {1, 0}, coords[2] = {0, 0}, keep[2] = {1, 0}, source = 0, dest = 0, n = 0, kind = 0, who = 0;
    int from[1] = {previous}, to[1] = {next}, weights[1] = {5}, got_from[1] = {0}, got_to[1] = {0}, in_weights[1] = {0}, out_weights[1] = {0};
    int degrees[1] = {1}, sources[1] = {rank}, indegree = 0, outdegree = 0, weighted = 0;
    int index[3] = {2, 4, 6}, edges[6] = {1, 2, 0, 2, 0, 1}, neighbors[2] = {0, 0};
    int out[N] = {rank, 1, 2, 3}, in[8] = {0}, one[1] = {1}, zero[1] = {0};
    MPI_Aint zero_bytes[1] = {0};
    MPI_Datatype ints[1] = {MPI_INT};
    MPI_Comm cart = MPI_COMM_NULL, ring = MPI_COMM_NULL, sub = MPI_COMM_NULL;
    MPI_Request request;

    CALL(MPI_Dims_create, size, 2, dims);
    CALL(MPI_Cart_create, world, 2, dims, periods, 0, &cart);
    CALL(MPI_Topo_test, cart, &kind);
    CALL(MPI_Cartdim_get, cart, &n);
    CALL(MPI_Cart_coords, cart, rank, 2, coords);
    CALL(MPI_Cart_rank, cart, coords, &who);
    CALL(MPI_Cart_get, cart, 2, dims, periods, coords);
    CALL(MPI_Cart_shift, cart, 0, 1, &source, &dest);
    CALL(MPI_Cart_shift, cart, 1, 1, &source, &dest);
    CALL(MPI_Sendrecv, out, N, MPI_INT, dest, 60, in, N, MPI_INT, source, 60, cart, MPI_STATUS_IGNORE);
    CALL(MPI_Cart_sub, cart, keep, &sub);
    CALL(MPI_Comm_size, sub, &n);
    CALL(MPI_Neighbor_allgather, out, 1, MPI_INT, in, 1, MPI_INT, cart);
    CALL(MPI_Comm_free, &sub);
    CALL(MPI_Comm_free, &cart);

    CALL(MPI_Dist_graph_create_adjacent, world, 1, from, weights, 1, to, weights, MPI_INFO_NULL, 0, &ring);
    CALL(MPI_Dist_graph_neighbors_count, ring, &indegree, &outdegree, &weighted);
    CALL(MPI_Dist_graph_neighbors, ring, 1, got_from, in_weights, 1, got_to, out_weights);
    CALL(MPI_Neighbor_allgather, out, 2, MPI_INT, in, 2, MPI_INT, ring);
    CALL(MPI_Neighbor_allgatherv, out, 1, MPI_INT, in, one, zero, MPI_INT, ring);
    CALL(MPI_Neighbor_alltoall, out, 1, MPI_INT, in, 1, MPI_INT, ring);
    CALL(MPI_Neighbor_alltoallv, out, one, zero, MPI_INT, in, one, zero, MPI_INT, ring);
    CALL(MPI_Neighbor_alltoallw, out, one, zero_bytes, ints, in, one, zero_bytes, ints, ring);
    CALL(MPI_Ineighbor_alltoall, out, 1, MPI_INT, in, 1, MPI_INT, ring, &request);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    CALL(MPI_Comm_free, &ring);
    CALL(MPI_Dist_graph_create, world, 1, sources, degrees, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    CALL(MPI_Comm_free, &ring);
    CALL(MPI_Graph_create, world, 3, index, edges, 0, &ring);
    CALL(MPI_Graph_neighbors_count, ring, rank, &n);
    CALL(MPI_Graph_neighbors, ring, rank, 2, neighbors);
    CALL(MPI_Neighbor_alltoall, out, 1, MPI_INT, in, 1, MPI_INT, ring);
    CALL(MPI_Comm_free, &ring);
}

static int copied(MPI_Comm comm, int keyval, void *extra, void *from, void *to, int *flag) {
    (void)comm, (void)keyval, (void)extra;
    *(void **)to = from;
    *flag = 1;
    return MPI_SUCCESS;
}

static void communicators(void) {
    int out[N] = {rank, 1, 2, 3}, in[N] = {0}, n = 0, mine = 0, which = 0, same = 0, flag = 0, keyval = 0, length = 0, error_class = 0;
    int firsts[2] = {0, 1}, range[1][3] = {{0, 2, 2}}, ranks[2] = {0, 0}, theirs[2] = {0, 0};
    static int attribute;
    void *found = NULL;
    char name[MPI_MAX_OBJECT_NAME] = "";
    MPI_Group all = MPI_GROUP_NULL, two = MPI_GROUP_NULL, ends = MPI_GROUP_NULL, mixed = MPI_GROUP_NULL;
    MPI_Comm dup = MPI_COMM_NULL, part = MPI_COMM_NULL, both = MPI_COMM_NULL, inter = MPI_COMM_NULL, merged = MPI_COMM_NULL;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Request request;

    CALL(MPI_Comm_dup, world, &dup);
    CALL(MPI_Comm_set_name, dup, "my copy");
    CALL(MPI_Comm_get_name, dup, name, &length);
    CALL(MPI_Comm_compare, world, dup, &same);
    CALL(MPI_Sendrecv, out, N, MPI_INT, next, 70, in, N, MPI_INT, previous, 70, dup, MPI_STATUS_IGNORE);
    CALL(MPI_Comm_idup, dup, &both, &request);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    CALL(MPI_Allreduce, out, in, N, MPI_INT, MPI_SUM, both);
    CALL(MPI_Comm_free, &both);

    CALL(MPI_Comm_split, dup, rank == 2, -rank, &part);
    CALL(MPI_Comm_size, part, &n);
    CALL(MPI_Comm_rank, part, &mine);
    CALL(MPI_Bcast, in, N, MPI_INT, 0, part);
    CALL(MPI_Comm_test_inter, part, &flag);
    CALL(MPI_Intercomm_create, part, 0, world, rank == 2 ? 1 : 2, 71, &inter);
    CALL(MPI_Comm_test_inter, inter, &flag);
    CALL(MPI_Comm_remote_size, inter, &n);
    if (rank == 2) CALL(MPI_Send, out, N, MPI_INT, 1, 72, inter);
    if (rank == 0) CALL(MPI_Recv, in, N, MPI_INT, 0, 72, inter, MPI_STATUS_IGNORE);
    CALL(MPI_Bcast, in, N, MPI_INT, rank == 2 ? MPI_ROOT : 0, inter);
    CALL(MPI_Intercomm_merge, inter, rank == 2, &merged);
    CALL(MPI_Comm_rank, merged, &mine);
    CALL(MPI_Comm_free, &merged);
    CALL(MPI_Comm_free, &inter);
    CALL(MPI_Comm_free, &part);
    CALL(MPI_Comm_split, world, rank ? 3 : MPI_UNDEFINED, 0, &part);
    if (rank) CALL(MPI_Comm_free, &part);
    CALL(MPI_Comm_split_type, world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    CALL(MPI_Comm_free, &part);

    CALL(MPI_Comm_group, world, &all);
    CALL(MPI_Group_size, all, &n);
    CALL(MPI_Group_rank, all, &which);
    CALL(MPI_Group_incl, all, 2, firsts, &two);
    CALL(MPI_Group_range_incl, all, 1, range, &ends);
    CALL(MPI_Group_union, two, ends, &mixed);
    CALL(MPI_Group_compare, all, mixed, &same);
    CALL(MPI_Group_free, &mixed);
    CALL(MPI_Group_intersection, two, ends, &mixed);
    CALL(MPI_Group_free, &mixed);
    CALL(MPI_Group_translate_ranks, ends, 2, ranks, all, theirs);
    CALL(MPI_Comm_create, dup, two, &part);
    if (rank < 2) CALL(MPI_Comm_free, &part);
    if (rank != 1) CALL(MPI_Comm_create_group, world, ends, 73, &part);
    if (rank != 1) CALL(MPI_Barrier, part);
    if (rank != 1) CALL(MPI_Comm_free, &part);
    CALL(MPI_Group_free, &two);
    CALL(MPI_Group_free, &ends);
    CALL(MPI_Group_free, &all);

    CALL(MPI_Comm_create_keyval, copied, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    CALL(MPI_Comm_set_attr, dup, keyval, (void *)&attribute);
    CALL(MPI_Comm_get_attr, dup, keyval, &found, &flag);
    CALL(MPI_Comm_delete_attr, dup, keyval);
    CALL(MPI_Comm_free_keyval, &keyval);

    CALL(MPI_Comm_get_errhandler, dup, &handler);
    CALL(MPI_Errhandler_free, &handler);
    CALL(MPI_Comm_set_errhandler, dup, MPI_ERRORS_RETURN);
    CALL(MPI_Send, out, N, MPI_INT, 17, 74, dup);
    CALL(MPI_Error_class, log_result, &error_class);
    CALL(MPI_Comm_free, &dup);
}

static void small_things(void) {
    int flag = 0, length = 0, level = 0, version = 0, subversion = 0;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    double now = 0;
    void *memory = NULL;

    CALL(MPI_Initialized, &flag);
    CALL(MPI_Query_thread, &level);
    CALL(MPI_Is_thread_main, &flag);
    CALL(MPI_Get_processor_name, name, &length);
    CALL_TIME(MPI_Wtime, now);
    CALL_TIME(MPI_Wtick, now);
    CALL(MPI_Alloc_mem, (MPI_Aint)100, MPI_INFO_NULL, &memory);
    CALL(MPI_Free_mem, memory);
    (void)version, (void)subversion;
}

static void begin(void) {
    log_open();
    log_meanings();
    CALL(MPI_Init, NULL, NULL);
    CALL(MPI_Comm_rank, world, &rank);
    CALL(MPI_Comm_size, world, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
}

static void everything(const char *path) {
    small_things();
    point_to_point();
    probes();
    collectives();
    datatypes();
    persistent();
    communicators();
    topologies();
    one_sided();
    files(path);
}

#endif
