! Each rank fills a parcel, and the parcels go round once.
program parcels
  use mpi
  implicit none
  type label
    integer :: id
    real(8) :: place(3)
  end type
  type(label) :: mine
  real(8) :: weights(3, 2)
  integer :: me, got, size, ierr
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  weights = 1.5d0
  weights(2, 1) = 7
  mine%id = me
  mine%place = [1d0, 2d0, 3d0]
  call MPI_Sendrecv(mine%id, 1, MPI_INTEGER, mod(me + 1, size), 3, got, 1, MPI_INTEGER, mod(me + size - 1, size), 3, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  got = got + mine%id ! here
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
end program
