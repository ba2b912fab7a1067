! case print_of_task data-race
subroutine print_of_task
  integer :: x
  x = 0
!$omp parallel
!$omp single
!$omp task shared(x)
  x = 7 ! found
!$omp end task
!$omp taskwait ! right
  print *, x ! found
!$omp end single
!$omp end parallel
end subroutine

! case internal_unit data-race
subroutine internal_unit
  character(len=20) :: s
  integer :: i, l(50)
!$omp parallel do ! wrong
!$omp parallel do private(s) ! right
  do i = 1, 50
    write (s, '(i4)') i ! found
    l(i) = len_trim(s) ! found
  end do
end subroutine

! case read_into data-race
subroutine read_into
  character(len=4) :: words(50)
  integer :: i, k, l(50)
  do i = 1, 50
    write (words(i), '(i4)') i
  end do
!$omp parallel do ! wrong
!$omp parallel do private(k) ! right
  do i = 1, 50
    read (words(i), *) k ! found
    l(i) = k ! found
  end do
end subroutine

! case random data-race
subroutine random
  integer :: i
  real :: r(10), s(50)
!$omp parallel do ! wrong
!$omp parallel do private(r) ! right
  do i = 1, 50
    call random_number(r) ! found
    s(i) = sum(r) ! found
  end do
end subroutine

! case shifted data-race
subroutine shifted
  integer :: v(20), w(20), r(50), i
  v = [(i, i = 1, 20)]
!$omp parallel do ! wrong
!$omp parallel do private(w) ! right
  do i = 1, 50
    w = cshift(v, i) ! found
    r(i) = w(1) ! found
  end do
end subroutine

! case reduced_of_many data-race
subroutine reduced_of_many
  integer :: v(4, 5), r(5), i
  v = 0
!$omp parallel do private(r)
  do i = 1, 5
    v(:, i) = i ! found
    r = sum(v, dim=1) ! wrong ! found
    r = sum(v(:, i)) ! right
  end do
end subroutine

! case smallest_word data-race
subroutine smallest_word
  character(len=10) :: words(10), least
  integer :: i
  words = 'abc'
  words(5) = 'aaa'
  least = 'zzz'
!$omp parallel do
  do i = 1, 10
!$omp critical ! right
    if (words(i) < least) then ! found
      least = words(i) ! found
    end if
!$omp end critical ! right
  end do
end subroutine

! case rows_in_one_piece data-race
subroutine rows_in_one_piece
  real :: a(20, 8)
  integer :: i
  a = 1
!$omp parallel do
  do i = 1, 19
    call doubled(a(i, :), a(i + 1, :)) ! wrong ! found
    call doubled(a(i, :), a(20, :)) ! right
  end do
contains
  subroutine doubled(x, y)
    real, intent(inout) :: x(8)
    real, intent(in) :: y(8)
    x = x + y
  end subroutine
end subroutine

! case pointer_of_each_iteration data-race
subroutine pointer_of_each_iteration
  integer, target :: a(100)
  integer, pointer :: q
  integer :: i
!$omp parallel do ! wrong
!$omp parallel do private(q) ! right
  do i = 1, 100
    q => a(i) ! found
    q = i
  end do
end subroutine

