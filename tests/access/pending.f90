! Buffers and windows in Fortran: run as `pending right` or `pending wrong`, which errs at the lines with BUG. Two ranks.
module cases
  use mpi
  implicit none
  integer, parameter :: n = 100
  integer :: me, peer, ierr, r(2), statuses(MPI_STATUS_SIZE, 2)
  logical :: wrong
  double precision, asynchronous :: in(2 * n), out(2 * n)
  double precision :: total = 0
contains
  subroutine begin(tag)
    integer, intent(in) :: tag
    call MPI_Irecv(in, n, MPI_DOUBLE_PRECISION, peer, tag, MPI_COMM_WORLD, r(1), ierr)
    call MPI_Isend(out, n, MPI_DOUBLE_PRECISION, peer, tag, MPI_COMM_WORLD, r(2), ierr)
  end subroutine

  subroutine finish
    call MPI_Waitall(2, r, statuses, ierr)
  end subroutine

  subroutine one_element
    call begin(1)
    if (wrong) out(7) = 1 ! BUG buffer-reuse
    out(n + 1) = 1
    call finish
    out(7) = 1
  end subroutine

  subroutine a_section
    integer :: i
    call begin(2)
    if (wrong) then
      do i = 1, 10
        out(2 * i) = in(n + i) ! BUG buffer-reuse
      end do
    end if
    call finish
  end subroutine

  subroutine a_whole_array
    call begin(3)
    if (wrong) out = 0 ! BUG buffer-reuse
    call finish
    out = 0
  end subroutine

  subroutine summed
    call begin(4)
    if (wrong) total = total + sum(in(1:n)) ! BUG buffer-reuse
    total = total + sum(in(n + 1:))
    call finish
    total = total + sum(in)
  end subroutine

  subroutine changed(a)
    double precision, intent(inout) :: a(:)
    a = a * 2 ! BUG buffer-reuse
  end subroutine

  subroutine by_a_subroutine
    call begin(5)
    if (wrong) call changed(out(1:10))
    call finish
  end subroutine

  subroutine every_third
    integer :: third, s
    call MPI_Type_vector(10, 1, 3, MPI_DOUBLE_PRECISION, third, ierr)
    call MPI_Type_commit(third, ierr)
    call MPI_Irecv(in, 1, third, peer, 6, MPI_COMM_WORLD, r(1), ierr)
    call MPI_Isend(out, 1, third, peer, 6, MPI_COMM_WORLD, r(2), ierr)
    do s = 2, 28, 3
      total = total + in(s)
    end do
    if (wrong) total = total + in(4) ! BUG buffer-reuse
    call finish
    call MPI_Type_free(third, ierr)
  end subroutine

  subroutine broadcast
    call MPI_Ibcast(in, n, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, r(1), ierr)
    if (me == 0) total = total + in(1)
    if (me == 1 .and. wrong) in(3) = 4 ! BUG buffer-reuse
    call MPI_Wait(r(1), MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine window
    integer :: win
    integer(MPI_ADDRESS_KIND) :: bytes, at
    bytes = 8 * n
    at = 4
    call MPI_Win_create(in, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    if (me == 1) call MPI_Put(out, 1, MPI_DOUBLE_PRECISION, 0, at, 1, MPI_DOUBLE_PRECISION, win, ierr) ! BUG rma-race
    if (me == 0) in(6) = 3
    if (me == 0 .and. wrong) in(5) = 3 ! BUG rma-race
    call MPI_Win_fence(0, win, ierr)
    in(5) = 4
    call MPI_Win_free(win, ierr)
  end subroutine
end module

program pending
  use cases
  implicit none
  character(10) :: mode
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call get_command_argument(1, mode)
  wrong = mode == 'wrong'
  peer = 1 - me
  in = 1
  out = 2
  call one_element
  call a_section
  call a_whole_array
  call summed
  call by_a_subroutine
  call every_third
  call broadcast
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call window
  if (total == -1) print *, 'never'
  call MPI_Finalize(ierr)
end program
