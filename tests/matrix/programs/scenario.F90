#include "interface.inc"
! The Fortran programs of the matrix: one text for mpif.h, use mpi and use mpi_f08. Each call stands on one line.
module scenario
#if defined(USE_MPI)
  use mpi
#elif defined(USE_MPI_F08)
  use mpi_f08
#endif
  use call_log
  implicit none
  integer, parameter :: n = 4
  integer :: rank, ranks, next, previous, ierr
  T_COMM :: world

contains

  subroutine start()
    world = MPI_COMM_WORLD
    call open_log()
    call meanings()
    CALL0(MPI_Init)
    CALL2(MPI_Comm_rank, world, rank)
    CALL2(MPI_Comm_size, world, ranks)
    next = mod(rank + 1, ranks)
    previous = mod(rank + ranks - 1, ranks)
  end subroutine

  subroutine small_things()
    logical :: flag
    integer :: length
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    double precision :: now
    flag = .false.
    name = ' '
    length = 0
    CALL1(MPI_Initialized, flag)
    CALL2(MPI_Get_processor_name, name, length)
    LOG_BEGIN(MPI_Wtime) ; LOG_THEN ; now = MPI_Wtime() ; call put_seconds(now) ; ierr = 0 ; LOG_END
  end subroutine

  subroutine point_to_point()
    integer :: out(n), in(n), more(n), got, idx, done, indices(2), left
    logical :: flag
    T_REQUEST :: request, requests(2)
    T_STATUS :: status ONE_STATUS, statuses STATUSES(2)
    out = [rank, 1, 2, 3]
    got = 0
    idx = 0
    indices = 0
    flag = .false.
    if (rank == 0) then
      CALL6(MPI_Send, out, n, MPI_INTEGER, next, 7, world)
      CALL7(MPI_Recv, in, n, MPI_INTEGER, MPI_ANY_SOURCE, 7, world, status)
    else
      CALL7(MPI_Recv, in, n, MPI_INTEGER, previous, MPI_ANY_TAG, world, status)
      CALL6(MPI_Send, out, n, MPI_INTEGER, next, 7, world)
    end if
    CALL3(MPI_Get_count, status, MPI_INTEGER, got)
    CALL7(MPI_Recv, in, n, MPI_INTEGER, MPI_PROC_NULL, 3, world, MPI_STATUS_IGNORE)
    if (rank == 0) then
      CALL6(MPI_Ssend, out, 2, MPI_INTEGER, 1, 8, world)
    else if (rank == 1) then
      CALL7(MPI_Recv, in, n, MPI_INTEGER, 0, 8, world, status)
      CALL3(MPI_Get_elements, status, MPI_INTEGER, got)
    end if

    CALL7(MPI_Irecv, in, n, MPI_INTEGER, previous, 11, world, requests(1))
    CALL7(MPI_Irecv, more, n, MPI_INTEGER, previous, 12, world, requests(2))
    CALL1(MPI_Barrier, world)
    CALL6(MPI_Rsend, out, n, MPI_INTEGER, next, 11, world)
    CALL7(MPI_Irsend, out, n - 1, MPI_INTEGER, next, 12, world, request)
    CALL3(MPI_Waitall, 2, requests, statuses)
    CALL2(MPI_Wait, request, status)

    CALL7(MPI_Irecv, in, n, MPI_INTEGER, MPI_ANY_SOURCE, 13, world, requests(1))
    CALL7(MPI_Isend, out, n, MPI_INTEGER, next, 13, world, requests(2))
    CALL4(MPI_Waitany, 2, requests, idx, status)
    CALL4(MPI_Waitany, 2, requests, idx, status)

    CALL7(MPI_Irecv, in, n, MPI_INTEGER, previous, 14, world, requests(1))
    CALL7(MPI_Issend, out, n, MPI_INTEGER, next, 14, world, requests(2))
    left = 2
    do while (left > 0)
      CALL5(MPI_Waitsome, 2, requests, got, indices, statuses)
      left = left - got
    end do

    CALL7(MPI_Irecv, in, n, MPI_INTEGER, previous, 15, world, request)
    CALL6(MPI_Send, out, 3, MPI_INTEGER, next, 15, world)
    flag = .false.
    do while (.not. flag)
      CALL3(MPI_Test, request, flag, status)
    end do
    CALL3(MPI_Get_count, status, MPI_INTEGER, got)

    CALL7(MPI_Irecv, in, n, MPI_INTEGER, previous, 16, world, requests(1))
    CALL7(MPI_Isend, out, n, MPI_INTEGER, next, 16, world, requests(2))
    flag = .false.
    do while (.not. flag)
      CALL4(MPI_Testall, 2, requests, flag, MPI_STATUSES_IGNORE)
    end do

    CALL7(MPI_Irecv, in, n, MPI_INTEGER, previous, 17, world, requests(1))
    CALL7(MPI_Isend, out, n, MPI_INTEGER, next, 17, world, requests(2))
    done = 0
    do while (done < 2)
      CALL5(MPI_Testany, 2, requests, idx, flag, status)
      if (flag) done = done + 1
    end do

    CALL12(MPI_Sendrecv, out, n, MPI_INTEGER, next, 21, in, n, MPI_INTEGER, previous, 21, world, status)
    CALL9(MPI_Sendrecv_replace, in, 2, MPI_INTEGER, previous, 22, next, 22, world, status)
    CALL7(MPI_Irecv, in, n, MPI_INTEGER, previous, 99, world, request)
    CALL1(MPI_Cancel, request)
    CALL2(MPI_Wait, request, status)
    CALL2(MPI_Test_cancelled, status, flag)
  end subroutine

  subroutine probes()
    integer :: out(n), in(n), got, i
    logical :: flag
    T_STATUS :: status ONE_STATUS
    T_MESSAGE :: message
    T_REQUEST :: request
    out = [rank, 5, 6, 7]
    message = MPI_MESSAGE_NULL
    got = 0
    if (rank /= 0) then
      CALL6(MPI_Send, out, rank, MPI_INTEGER, 0, 30, world)
      CALL6(MPI_Send, out, rank + 1, MPI_INTEGER, 0, 31, world)
      CALL6(MPI_Send, out, rank + 1, MPI_INTEGER, 0, 32, world)
      CALL6(MPI_Send, out, rank + 2, MPI_INTEGER, 0, 33, world)
    else
      do i = 1, ranks - 1
        CALL4(MPI_Probe, MPI_ANY_SOURCE, 30, world, status)
        CALL3(MPI_Get_count, status, MPI_INTEGER, got)
        CALL7(MPI_Recv, in, got, MPI_INTEGER, SOURCE_OF(status), 30, world, MPI_STATUS_IGNORE)
        flag = .false.
        do while (.not. flag)
          CALL5(MPI_Iprobe, i, 31, world, flag, status)
        end do
        CALL7(MPI_Recv, in, n, MPI_INTEGER, i, 31, world, status)
        CALL5(MPI_Mprobe, MPI_ANY_SOURCE, 32, world, message, status)
        CALL5(MPI_Mrecv, in, n, MPI_INTEGER, message, status)
        flag = .false.
        do while (.not. flag)
          CALL6(MPI_Improbe, i, 33, world, flag, message, status)
        end do
        CALL5(MPI_Imrecv, in, n, MPI_INTEGER, message, request)
        CALL2(MPI_Wait, request, status)
      end do
    end if
    CALL1(MPI_Barrier, world)
  end subroutine

  subroutine collectives()
    integer :: out(12), in(12), counts(3), starts(3), turned(3), turned_starts(3), bytes(3), pair(2), best(2)
    T_DATATYPE :: types(3)
    T_REQUEST :: request
    T_STATUS :: status ONE_STATUS
    integer :: i
    out = [(rank + i, i=0, 11)]
    in = 0
    pair = [rank, 3]
    best = 0
    counts = [1, 2, 1]
    starts = [0, 1, 3]
    turned = 1
    turned_starts = [0, 2, 4]
    bytes = [0, 8, 16]
    types = MPI_INTEGER
    CALL1(MPI_Barrier, world)
    CALL5(MPI_Bcast, in, n, MPI_INTEGER, 1, world)
    CALL8(MPI_Gather, out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, 2, world)
    CALL9(MPI_Gatherv, out, counts(rank + 1), MPI_INTEGER, in, counts, starts, MPI_INTEGER, 0, world)
    CALL8(MPI_Scatter, out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, 1, world)
    CALL9(MPI_Scatterv, out, counts, starts, MPI_INTEGER, in, counts(rank + 1), MPI_INTEGER, 2, world)
    CALL7(MPI_Allgather, out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, world)
    CALL8(MPI_Allgatherv, out, counts(rank + 1), MPI_INTEGER, in, counts, starts, MPI_INTEGER, world)
    CALL7(MPI_Alltoall, out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, world)
    CALL9(MPI_Alltoallv, out, turned, turned_starts, MPI_INTEGER, in, turned, turned_starts, MPI_INTEGER, world)
    CALL9(MPI_Alltoallw, out, turned, bytes, types, in, turned, bytes, types, world)
    CALL7(MPI_Reduce, out, in, n, MPI_INTEGER, MPI_SUM, 1, world)
    CALL6(MPI_Allreduce, pair, best, 1, MPI_2INTEGER, MPI_MAXLOC, world)
    LOG_BEGIN(MPI_Allreduce) ; call add(at(loc(MPI_IN_PLACE))) ; LOG_5(in, n, MPI_INTEGER, MPI_MAX, world) ; LOG_THEN ; call MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_INTEGER, MPI_MAX, world, ierr) ; call add(at(loc(MPI_IN_PLACE))) ; LOG_5(in, n, MPI_INTEGER, MPI_MAX, world) ; LOG_END
    CALL6(MPI_Scan, out, in, n, MPI_INTEGER, MPI_SUM, world)
    CALL6(MPI_Exscan, out, in, n, MPI_INTEGER, MPI_SUM, world)
    CALL6(MPI_Reduce_scatter, out, in, counts, MPI_INTEGER, MPI_SUM, world)
    CALL6(MPI_Reduce_scatter_block, out, in, 2, MPI_INTEGER, MPI_SUM, world)
    CALL2(MPI_Ibarrier, world, request)
    CALL2(MPI_Wait, request, MPI_STATUS_IGNORE)
    CALL6(MPI_Ibcast, in, n, MPI_INTEGER, 2, world, request)
    CALL2(MPI_Wait, request, status)
    CALL8(MPI_Iallgather, out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, world, request)
    CALL2(MPI_Wait, request, status)
    CALL10(MPI_Igatherv, out, counts(rank + 1), MPI_INTEGER, in, counts, starts, MPI_INTEGER, 1, world, request)
    CALL2(MPI_Wait, request, status)
    CALL7(MPI_Iallreduce, out, in, n, MPI_INTEGER, MPI_SUM, world, request)
    CALL2(MPI_Wait, request, status)
    CALL8(MPI_Ireduce, out, in, n, MPI_INTEGER, MPI_MAX, 0, world, request)
    CALL2(MPI_Wait, request, status)
  end subroutine

  subroutine datatypes()
    integer :: in(32), out(32), lengths(2), places(2), bytes_in, position, whole(2), part(2), from(2)
    integer :: packed(64), packed_size
    integer(kind=MPI_ADDRESS_KIND) :: bytes(2), lb, extent, address
    T_DATATYPE :: parts(2), line, column, record, other
    T_STATUS :: status ONE_STATUS
    in = 0
    out = rank
    lengths = [1, 2]
    places = [0, 3]
    whole = [4, 6]
    part = [2, 3]
    from = [1, 2]
    bytes = [0, 8]
    parts = [MPI_INTEGER, MPI_DOUBLE_PRECISION]
    line = MPI_DATATYPE_NULL
    column = MPI_DATATYPE_NULL
    record = MPI_DATATYPE_NULL
    other = MPI_DATATYPE_NULL
    CALL3(MPI_Type_contiguous, 3, MPI_INTEGER, line)
    CALL1(MPI_Type_commit, line)
    CALL5(MPI_Type_vector, 3, 1, 4, MPI_INTEGER, column)
    CALL1(MPI_Type_commit, column)
    CALL2(MPI_Type_size, column, bytes_in)
    CALL3(MPI_Type_get_extent, column, lb, extent)
    CALL2(MPI_Type_set_name, column, 'column')
    CALL12(MPI_Sendrecv, out, 1, column, next, 40, in, 1, line, previous, 40, world, status)
    CALL5(MPI_Type_create_struct, 2, lengths, bytes, parts, record)
    CALL1(MPI_Type_commit, record)
    CALL3(MPI_Type_get_extent, record, lb, extent)
    CALL12(MPI_Sendrecv, out, 1, record, next, 41, in, 1, record, previous, 41, world, status)
    CALL4(MPI_Type_create_resized, column, 0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND, other)
    CALL1(MPI_Type_commit, other)
    CALL1(MPI_Type_free, column)
    CALL12(MPI_Sendrecv, out, 2, other, next, 42, in, 2, other, previous, 42, world, status)
    CALL1(MPI_Type_free, other)
    CALL7(MPI_Type_create_subarray, 2, whole, part, from, MPI_ORDER_FORTRAN, MPI_INTEGER, other)
    CALL1(MPI_Type_commit, other)
    CALL12(MPI_Sendrecv, out, 1, other, next, 43, in, 1, other, previous, 43, world, status)
    CALL1(MPI_Type_free, other)
    CALL5(MPI_Type_indexed, 2, lengths, places, MPI_INTEGER, other)
    CALL1(MPI_Type_free, other)
    CALL5(MPI_Type_create_hvector, 2, 1, 24_MPI_ADDRESS_KIND, MPI_INTEGER, other)
    CALL1(MPI_Type_free, other)
    CALL5(MPI_Type_create_indexed_block, 2, 1, places, MPI_INTEGER, other)
    CALL1(MPI_Type_free, other)
    CALL2(MPI_Get_address, in, address)
    CALL4(MPI_Pack_size, n, MPI_INTEGER, world, packed_size)
    position = 0
    CALL7(MPI_Pack, out, n, MPI_INTEGER, packed, 256, position, world)
    position = 0
    CALL7(MPI_Unpack, packed, 256, position, in, n, MPI_INTEGER, world)
    CALL1(MPI_Type_free, record)
    CALL1(MPI_Type_free, line)
  end subroutine

  subroutine persistent()
    integer :: out(n), in(n), i
    T_REQUEST :: requests(2)
    T_STATUS :: statuses STATUSES(2)
    out = rank
    CALL7(MPI_Send_init, out, n, MPI_INTEGER, next, 50, world, requests(1))
    CALL7(MPI_Recv_init, in, n, MPI_INTEGER, MPI_ANY_SOURCE, 50, world, requests(2))
    do i = 1, 2
      CALL2(MPI_Startall, 2, requests)
      CALL3(MPI_Waitall, 2, requests, statuses)
    end do
    CALL1(MPI_Request_free, requests(1))
    CALL1(MPI_Request_free, requests(2))
  end subroutine

  subroutine communicators()
    integer :: out(n), in(n), m, mine, same, firsts(2), ends_of(3, 1), ranks_of(2), theirs(2), error_class, length
    logical :: flag
    character(len=MPI_MAX_OBJECT_NAME) :: name
    T_GROUP :: all, two, ends
    T_COMM :: dup, part, inter, merged
    T_ERRHANDLER :: handler
    integer :: color, leader
    out = rank
    in = 0
    firsts = [0, 1]
    ends_of(:, 1) = [0, 2, 2]
    ranks_of = [0, 1]
    theirs = 0
    color = merge(1, 0, rank == 2)
    leader = merge(1, 2, rank == 2)
    name = ' '
    length = 0
    CALL2(MPI_Comm_dup, world, dup)
    CALL2(MPI_Comm_set_name, dup, 'my copy')
    CALL3(MPI_Comm_get_name, dup, name, length)
    CALL3(MPI_Comm_compare, world, dup, same)
    CALL12(MPI_Sendrecv, out, n, MPI_INTEGER, next, 70, in, n, MPI_INTEGER, previous, 70, dup, MPI_STATUS_IGNORE)
    CALL4(MPI_Comm_split, dup, color, -rank, part)
    CALL2(MPI_Comm_size, part, m)
    CALL2(MPI_Comm_rank, part, mine)
    CALL5(MPI_Bcast, in, n, MPI_INTEGER, 0, part)
    CALL6(MPI_Intercomm_create, part, 0, world, leader, 71, inter)
    CALL2(MPI_Comm_test_inter, inter, flag)
    CALL2(MPI_Comm_remote_size, inter, m)
    CALL3(MPI_Intercomm_merge, inter, rank == 2, merged)
    CALL1(MPI_Comm_free, merged)
    CALL1(MPI_Comm_free, inter)
    CALL1(MPI_Comm_free, part)
    CALL5(MPI_Comm_split_type, world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, part)
    CALL1(MPI_Comm_free, part)
    CALL2(MPI_Comm_group, world, all)
    CALL2(MPI_Group_size, all, m)
    CALL4(MPI_Group_incl, all, 2, firsts, two)
    CALL4(MPI_Group_range_incl, all, 1, ends_of, ends)
    CALL5(MPI_Group_translate_ranks, ends, 2, ranks_of, all, theirs)
    CALL3(MPI_Comm_create, dup, two, part)
    if (rank < 2) then
      CALL1(MPI_Comm_free, part)
    end if
    if (rank /= 1) then
      CALL4(MPI_Comm_create_group, world, ends, 73, part)
      CALL1(MPI_Barrier, part)
      CALL1(MPI_Comm_free, part)
    end if
    CALL1(MPI_Group_free, two)
    CALL1(MPI_Group_free, ends)
    CALL1(MPI_Group_free, all)
    CALL2(MPI_Comm_get_errhandler, dup, handler)
    CALL1(MPI_Errhandler_free, handler)
    CALL2(MPI_Comm_set_errhandler, dup, MPI_ERRORS_RETURN)
    CALL6(MPI_Send, out, n, MPI_INTEGER, 17, 74, dup)
    m = ierr
    CALL2(MPI_Error_class, m, error_class)
    CALL1(MPI_Comm_free, dup)
  end subroutine

  subroutine topologies()
    integer :: dims(2), coords(2), source, dest, m, kind, who, from(1), to(1), weights(1), degrees(1), sources(1)
    integer :: out(n), in(8), one(1), zero(1), indegree, outdegree
    integer(kind=MPI_ADDRESS_KIND) :: zero_bytes(1)
    T_DATATYPE :: ints(1)
    logical :: periods(2), keep(2), weighted
    T_COMM :: cart, ring, sub
    T_REQUEST :: request
    dims = [0, 1]
    periods = [.true., .false.]
    keep = [.true., .false.]
    coords = 0
    from = previous
    to = next
    weights = 5
    degrees = 1
    sources = rank
    one = 1
    zero = 0
    zero_bytes = 0
    ints = MPI_INTEGER
    out = rank
    in = 0
    CALL3(MPI_Dims_create, ranks, 2, dims)
    CALL6(MPI_Cart_create, world, 2, dims, periods, .false., cart)
    CALL2(MPI_Topo_test, cart, kind)
    CALL2(MPI_Cartdim_get, cart, m)
    CALL4(MPI_Cart_coords, cart, rank, 2, coords)
    CALL3(MPI_Cart_rank, cart, coords, who)
    CALL5(MPI_Cart_get, cart, 2, dims, periods, coords)
    CALL5(MPI_Cart_shift, cart, 0, 1, source, dest)
    CALL5(MPI_Cart_shift, cart, 1, 1, source, dest)
    CALL12(MPI_Sendrecv, out, n, MPI_INTEGER, dest, 60, in, n, MPI_INTEGER, source, 60, cart, MPI_STATUS_IGNORE)
    CALL3(MPI_Cart_sub, cart, keep, sub)
    CALL7(MPI_Neighbor_allgather, out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, cart)
    CALL1(MPI_Comm_free, sub)
    CALL1(MPI_Comm_free, cart)
    CALL10(MPI_Dist_graph_create_adjacent, world, 1, from, weights, 1, to, weights, MPI_INFO_NULL, .false., ring)
    CALL4(MPI_Dist_graph_neighbors_count, ring, indegree, outdegree, weighted)
    CALL7(MPI_Neighbor_allgather, out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, ring)
    CALL8(MPI_Neighbor_allgatherv, out, 1, MPI_INTEGER, in, one, zero, MPI_INTEGER, ring)
    CALL9(MPI_Neighbor_alltoallv, out, one, zero, MPI_INTEGER, in, one, zero, MPI_INTEGER, ring)
    CALL9(MPI_Neighbor_alltoallw, out, one, zero_bytes, ints, in, one, zero_bytes, ints, ring)
    CALL8(MPI_Ineighbor_alltoall, out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, ring, request)
    CALL2(MPI_Wait, request, MPI_STATUS_IGNORE)
    CALL1(MPI_Comm_free, ring)
    CALL9(MPI_Dist_graph_create, world, 1, sources, degrees, to, weights, MPI_INFO_NULL, .false., ring)
    CALL1(MPI_Comm_free, ring)
  end subroutine

  subroutine one_sided()
    integer, save, asynchronous :: memory(8)
    integer :: mine(1), result(2), compare(1), others(1)
    T_WIN :: window
    T_GROUP :: all, to, from
    T_REQUEST :: request
    memory = 0
    mine = rank + 1
    compare = 0
    result = 0
    CALL6(MPI_Win_create, memory, 32_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, world, window)
    CALL2(MPI_Win_fence, MPI_MODE_NOPRECEDE, window)
    CALL8(MPI_Put, mine, 1, MPI_INTEGER, next, int(rank, MPI_ADDRESS_KIND), 1, MPI_INTEGER, window)
    CALL2(MPI_Win_fence, 0, window)
    CALL8(MPI_Get, result, 2, MPI_INTEGER, previous, 2_MPI_ADDRESS_KIND, 2, MPI_INTEGER, window)
    CALL9(MPI_Accumulate, mine, 1, MPI_INTEGER, next, 4_MPI_ADDRESS_KIND, 1, MPI_INTEGER, MPI_SUM, window)
    CALL2(MPI_Win_fence, MPI_MODE_NOSUCCEED, window)
    CALL4(MPI_Win_lock, MPI_LOCK_EXCLUSIVE, 0, 0, window)
    CALL7(MPI_Fetch_and_op, mine, result, MPI_INTEGER, 0, 5_MPI_ADDRESS_KIND, MPI_SUM, window)
    CALL2(MPI_Win_flush, 0, window)
    CALL2(MPI_Win_unlock, 0, window)
    CALL2(MPI_Win_lock_all, 0, window)
    CALL7(MPI_Compare_and_swap, mine, compare, result, MPI_INTEGER, next, 7_MPI_ADDRESS_KIND, window)
    CALL9(MPI_Rput, mine, 1, MPI_INTEGER, next, 6_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window, request)
    CALL2(MPI_Wait, request, MPI_STATUS_IGNORE)
    CALL1(MPI_Win_flush_all, window)
    CALL1(MPI_Win_unlock_all, window)
    CALL1(MPI_Barrier, world)
    CALL2(MPI_Win_get_group, window, all)
    others = next
    CALL4(MPI_Group_incl, all, 1, others, to)
    others = previous
    CALL4(MPI_Group_incl, all, 1, others, from)
    CALL3(MPI_Win_post, from, 0, window)
    CALL3(MPI_Win_start, to, 0, window)
    CALL8(MPI_Put, mine, 1, MPI_INTEGER, next, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window)
    CALL1(MPI_Win_complete, window)
    CALL1(MPI_Win_wait, window)
    CALL1(MPI_Group_free, to)
    CALL1(MPI_Group_free, from)
    CALL1(MPI_Group_free, all)
    CALL1(MPI_Win_free, window)
  end subroutine

  subroutine files(path)
    character(len=*), intent(in) :: path
    integer :: out(n), in(n), got
    integer(kind=MPI_OFFSET_KIND) :: length, position
    T_FILE :: file
    T_STATUS :: status ONE_STATUS
    T_REQUEST :: request
    out = rank
    CALL5(MPI_File_open, world, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
    CALL6(MPI_File_set_view, file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
    CALL6(MPI_File_write_at, file, int(n * rank, MPI_OFFSET_KIND), out, n, MPI_INTEGER, status)
    CALL3(MPI_Get_count, status, MPI_INTEGER, got)
    CALL6(MPI_File_write_at_all, file, int(n * rank, MPI_OFFSET_KIND), out, n, MPI_INTEGER, MPI_STATUS_IGNORE)
    CALL1(MPI_File_sync, file)
    CALL1(MPI_Barrier, world)
    CALL3(MPI_File_seek, file, int(n * rank, MPI_OFFSET_KIND), MPI_SEEK_SET)
    CALL5(MPI_File_read_all, file, in, 2, MPI_INTEGER, status)
    CALL2(MPI_File_get_position, file, position)
    CALL6(MPI_File_iwrite_at, file, int(n * rank, MPI_OFFSET_KIND), out, 2, MPI_INTEGER, request)
    CALL2(MPI_Wait, request, status)
    CALL2(MPI_File_get_size, file, length)
    CALL1(MPI_File_close, file)
    CALL1(MPI_Barrier, world)
    if (rank == 0) then
      CALL2(MPI_File_delete, path, MPI_INFO_NULL)
    end if
  end subroutine

  subroutine finish()
    CALL0(MPI_Finalize)
  end subroutine

end module

program main
  use scenario, only: start, small_things, point_to_point, probes, collectives, datatypes, persistent, communicators, &
    topologies, one_sided, files, finish
  implicit none
  character(len=4096) :: path
  call get_command_argument(1, path)
  if (path == ' ') path = 'cells.dat'
  call start()
  call small_things()
  call point_to_point()
  call probes()
  call collectives()
  call datatypes()
  call persistent()
  call communicators()
  call topologies()
  call one_sided()
  call files(trim(path))
  call finish()
end program
