program heat
    use weft
    implicit none
    integer, parameter :: n = 30
    double precision :: a(n, n), b(n, n)
    real :: few(3) = [1.0, 2.0, 3.0]
    type pair
        integer :: first, second
    end type
    integer :: step, i, j
    a = 0
    a(1, :) = 1
    do step = 0, 5
        call weft_loop("sweep", step)
        b = a
        do j = 2, n - 1
            do i = 2, n - 1
                b(i, j) = (a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1)) / 4
            end do
        end do
        call weft_probe("residual", maxval(abs(b - a)))
        a = b
        call weft_probe("A", a(1:n/2, :), of="A")
        call weft_probe("A", a(n/2 + 1:, :), of="A", lower=[n/2 + 1, 1])
    end do
    call weft_end("sweep")
    call weft_probe("few", few)
    call weft_probe("pair", pair(1, 2))
end program
