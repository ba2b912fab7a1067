! Three kernels on any number of ranks, each with faults that are asked for by name: kernels KERNEL [FAULT].
program kernels
    use mpi
    use weft
    implicit none
    integer, parameter :: n = 24
    integer :: ierr, rank, size, first, mine, left, right
    character(len=16) :: kernel, fault
    fault = ''
    call get_command_argument(1, kernel)
    if (command_argument_count() > 1) call get_command_argument(2, fault)
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
    first = rank * (n / size) + min(rank, mod(n, size)) + 1
    mine = n / size + merge(1, 0, rank < mod(n, size))
    left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    right = merge(rank + 1, MPI_PROC_NULL, rank < size - 1)
    select case (kernel)
    case ('heat'); call heat()
    case ('matmul'); call matmul()
    case ('cg'); call cg()
    end select
    call MPI_Finalize(ierr)

contains

    ! Whether a fault is planted here: in step 2, on rank 1 (0 where there is no other), or on all ranks.
    logical function everywhere(name, step)
        character(len=*), intent(in) :: name
        integer, intent(in) :: step
        everywhere = fault == name .and. step == 2
    end function

    logical function bad(name, step)
        character(len=*), intent(in) :: name
        integer, intent(in) :: step
        bad = everywhere(name, step) .and. rank == min(1, size - 1)
    end function

    subroutine heat()
        double precision :: a(n, 0:mine + 1), b(n, 0:mine + 1)
        integer :: step, i, j
        a = 0
        do j = 1, mine
            do i = 1, n
                a(i, j) = sin(dble(first + j - 1)) + cos(dble(i))
            end do
        end do
        do step = 0, 3
            call weft_loop('sweep', step)
            if (.not. everywhere('no-exchange', step)) then
                call MPI_Sendrecv(a(1, 1), n, MPI_DOUBLE_PRECISION, left, 0, a(1, mine + 1), n, MPI_DOUBLE_PRECISION, right, 0, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
                call MPI_Sendrecv(a(1, mine), n, MPI_DOUBLE_PRECISION, right, 1, a(1, 0), n, MPI_DOUBLE_PRECISION, left, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
            end if
            b = a
            do j = merge(2, 1, bad('bound', step)), mine
                if (first + j - 1 == 1 .or. first + j - 1 == n) cycle
                do i = 2, n - 1
                    b(i, j) = (a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1)) / 4
                    if (bad('single', step)) b(i, j) = real(b(i, j))
                end do
            end do
            a = b
            call weft_probe('A', a(:, 1:mine), of='A', lower=[1, first])
        end do
        call weft_end('sweep')
    end subroutine

    subroutine matmul()
        double precision :: a(n, n), panel(n, n / 4), c(n, mine)
        integer :: k, root, i, j
        do j = 1, n
            do i = 1, n
                a(i, j) = mod(i * 3 + j * 5, 7)
            end do
        end do
        c = 0
        do k = 0, 3
            call weft_loop('panel', k)
            root = mod(k, size)
            panel = 0
            if (rank == root) panel = a(:, k * n / 4 + 1:(k + 1) * n / 4)
            if (everywhere('root', k)) root = mod(root + 1, size)
            call MPI_Bcast(panel, n * n / 4, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, ierr)
            if (bad('not-added', k)) c = 0
            do j = 1, mine
                do i = 1, n / 4
                    c(:, j) = c(:, j) + panel(:, i) * a(k * n / 4 + i, first + j - 1)
                end do
            end do
            call weft_probe('C', c, of='C', lower=[1, first])
        end do
        call weft_end('panel')
    end subroutine

    subroutine cg()
        double precision :: x(mine), r(mine), p(0:mine + 1), q(mine), rho, new, alpha
        integer :: step, i
        x = 0
        p = 0
        do i = 1, mine
            r(i) = mod((first + i - 2) * 7, 11) - 4.5d0
        end do
        p(1:mine) = r
        rho = total(dot_product(r, r), -1)
        do step = 0, 5
            call weft_loop('iteration', step)
            if (.not. everywhere('halo', step)) then
                call MPI_Sendrecv(p(1), 1, MPI_DOUBLE_PRECISION, left, 0, p(mine + 1), 1, MPI_DOUBLE_PRECISION, right, 0, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
                call MPI_Sendrecv(p(mine), 1, MPI_DOUBLE_PRECISION, right, 1, p(0), 1, MPI_DOUBLE_PRECISION, left, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
            end if
            q = 2.1d0 * p(1:mine) - p(0:mine - 1) - p(2:mine + 1)
            alpha = rho / total(dot_product(p(1:mine), q), step)
            x = x + alpha * p(1:mine)
            r = r - alpha * q
            new = total(dot_product(r, r), -1)
            p(1:mine) = r + merge(rho / new, new / rho, bad('beta', step)) * p(1:mine)
            rho = new
            call weft_probe('p', p(1:mine), of='p', lower=[first])
        end do
        call weft_end('iteration')
    end subroutine

    double precision function total(part, step)
        double precision, intent(in) :: part
        integer, intent(in) :: step
        call MPI_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
        if (bad('local', step)) total = part
        call weft_probe('total', total)
    end function
end program
