program heat
  use mpi
  implicit none
  integer, parameter :: n = 24
  real(8), allocatable :: a(:, :), b(:, :)
  real(8) :: mine, total
  integer :: rank, size, ierr, cols, first, i, j, step, up, down
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  cols = n / size
  first = rank * cols + 1
  allocate(a(n, 0:cols + 1), b(n, 0:cols + 1))
  a = 0
  b = 0
  do j = 1, cols
    do i = 1, n
      a(i, j) = (first + j) * 0.5d0 + i
    end do
  end do
  up = MPI_PROC_NULL
  down = MPI_PROC_NULL
  if (rank > 0) up = rank - 1
  if (rank < size - 1) down = rank + 1
  do step = 1, 4
    call MPI_Sendrecv(a(1, 1), n, MPI_DOUBLE_PRECISION, up, 0, a(1, cols + 1), n, MPI_DOUBLE_PRECISION, down, 0, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(a(1, cols), n, MPI_DOUBLE_PRECISION, down, 1, a(1, 0), n, MPI_DOUBLE_PRECISION, up, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    mine = 0
    do j = 1, cols
      do i = 2, n - 1
        b(i, j) = (a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1)) / 4
        mine = mine + b(i, j)
      end do
    end do
#ifdef FAULT
    if (step == 3 .and. rank == size - 1) b(5, 2) = b(5, 2) * 1.001d0
#endif
    a(2:n - 1, 1:cols) = b(2:n - 1, 1:cols)
    call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  if (rank == 0) print *, total
  call MPI_Finalize(ierr)
end program
