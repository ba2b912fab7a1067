! Jacobi's method on blocks of a grid that is cut in both dimensions. `rows right|FAULT [inferred]`
!
! `inferred`: no line says how wide ghosts are, and rows are received by a vector type, not copied out of a buffer.
program rows
  use mpi
  use weft
  implicit none
  integer, parameter :: n = 6, m = 5, steps = 6
  integer :: cart, rank, ranks, ierr, number, dims(2), low(2), high(2), at(2), mine
  double precision, allocatable :: u(:, :), v(:, :)
  character(16) :: fault, widths

  call get_command_argument(1, fault)
  call get_command_argument(2, widths)
  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  dims = 0
  call MPI_Dims_create(ranks, 2, dims, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .false., cart, ierr)
  call MPI_Comm_rank(cart, rank, ierr)
  call MPI_Cart_coords(cart, rank, 2, at, ierr)
  call MPI_Cart_shift(cart, 0, 1, low(1), high(1), ierr)
  call MPI_Cart_shift(cart, 1, 1, low(2), high(2), ierr)
  mine = n + at(1)
  allocate (u(0:mine + 1, 0:m + 1), v(0:mine + 1, 0:m + 1))
  u = 0
  v = 0
  if (widths == "inferred") then
    call weft_part("u", u, comm=cart)
    call weft_part("v", v, comm=cart)
  else
    call weft_part("u", u, [1, 1], cart)
    call weft_part("v", v, [1, 1], cart)
  end if
  call random_number(u(1:mine, 1:m))
  u(1:mine, 1:m) = u(1:mine, 1:m) + 1 + rank
  do number = 1, steps
    if (fault == "late") then
      call relax(u, v)
      call exchange(u)
    else
      if (fault /= "seldom" .or. mod(number, 3) == 1) call exchange(u)
      if (fault == "written") u(0, :) = 9
      if (fault == "boundary" .and. low(1) == MPI_PROC_NULL) u(0, :) = 9
      call relax(u, v)
    end if
    u(1:mine, 1:m) = v(1:mine, 1:m)
    call MPI_Barrier(cart, ierr)
  end do
  deallocate (u, v)
  call MPI_Comm_free(cart, ierr)
  call MPI_Finalize(ierr)

contains

  subroutine relax(old, new)
    double precision, intent(in) :: old(0:, 0:)
    double precision, intent(inout) :: new(0:, 0:)
    integer :: j
    do j = 1, m
      new(1:mine, j) = (old(0:mine - 1, j) + old(2:mine + 1, j) + old(1:mine, j - 1) + old(1:mine, j + 1))/4 ! the star
    end do
  end subroutine

  subroutine exchange(x)
    double precision, intent(inout) :: x(0:, 0:)
    double precision :: out(m), back(m)
    integer :: k, across
    integer, parameter :: ok = MPI_DOUBLE_PRECISION
    call MPI_Type_vector(m, 1, mine + 2, ok, across, ierr)
    call MPI_Type_commit(across, ierr)
    do k = 1, 2
      out = x(merge(mine, 1, k == 1), 1:m)
      if (widths == "inferred") then
        call MPI_Sendrecv(out, m, ok, merge(high(1), low(1), k == 1), k, x(merge(0, mine + 1, k == 1), 1), 1, across, &
                          merge(low(1), high(1), k == 1), k, cart, MPI_STATUS_IGNORE, ierr)
        cycle
      end if
      call MPI_Sendrecv(out, m, ok, merge(high(1), low(1), k == 1), k, back, m, ok, merge(low(1), high(1), k == 1), k, &
                        cart, MPI_STATUS_IGNORE, ierr)
      if (merge(low(1), high(1), k == 1) /= MPI_PROC_NULL) x(merge(0, mine + 1, k == 1), 1:m) = back
    end do
    call MPI_Type_free(across, ierr)
    call MPI_Sendrecv(x(1, m), mine, ok, high(2), 3, x(1, 0), mine, ok, low(2), 3, cart, MPI_STATUS_IGNORE, ierr)
    if (fault == "side") return
    call MPI_Sendrecv(x(1, 1), mine, ok, low(2), 4, x(1, m + 1), mine, ok, high(2), 4, cart, MPI_STATUS_IGNORE, ierr)
  end subroutine
end program
