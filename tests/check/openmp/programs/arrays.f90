! case antidependence data-race
subroutine antidependence
  integer :: a(100), b(100), i
  a = 1
  b = 2
!$omp parallel do
  do i = 1, 99
    a(i) = a(i + 1) ! wrong ! found
    a(i) = b(i + 1) ! right
  end do
end subroutine

! case flow data-race
subroutine flow
  real :: a(100, 10)
  integer :: i, j
  a = 1
!$omp parallel do private(i)
  do j = 2, 10
    do i = 1, 100
      a(i, j) = a(i, j - 1) + 1 ! wrong ! found
      a(i, j) = a(i, 1) + 1 ! right
    end do
  end do
end subroutine

! case private_missing data-race
subroutine private_missing
  real :: a(100), t
  integer :: i
  a = 1
!$omp parallel do shared(t) ! wrong
!$omp parallel do private(t) ! right
  do i = 1, 100
    t = a(i) ! found
    a(i) = t * t
  end do
!$omp end parallel do
end subroutine

! case reduction_missing data-race
subroutine reduction_missing
  integer :: i, total
  total = 0
!$omp parallel do ! wrong
!$omp parallel do reduction(+:total) ! right
  do i = 1, 100
    total = total + i ! found
  end do
!$omp end parallel do
  if (total < 0) print *, total
end subroutine

! case nowait data-race
subroutine nowait
  integer :: a(100), b(100), i
!$omp parallel
!$omp do
  do i = 1, 100
    a(i) = i ! found
  end do
!$omp end do nowait ! wrong
!$omp end do ! right
!$omp do
  do i = 1, 100
    b(i) = a(101 - i) ! found
  end do
!$omp end do
!$omp end parallel
  if (b(1) < 0) print *, b(1)
end subroutine

! case sections data-race
subroutine sections
  integer :: x, y
  x = 0
  y = 0
!$omp parallel sections
!$omp section
  x = 1 ! found
!$omp section
  x = 2 ! wrong ! found
  y = 2 ! right
!$omp end parallel sections
  if (x + y < 0) print *, x
end subroutine

! case critical data-race
subroutine critical
  integer :: i, n
  n = 0
!$omp parallel do
  do i = 1, 100
!$omp critical ! right
    n = n + 1 ! found
!$omp end critical ! right
  end do
  if (n < 0) print *, n
end subroutine

! case tasks data-race
subroutine tasks
  integer :: x, y
  x = 0
!$omp parallel
!$omp single
!$omp task shared(x)
  x = 1 ! found
!$omp end task
!$omp taskwait ! right
  y = x ! found
!$omp end single
!$omp end parallel
  if (y < 0) print *, y
end subroutine

! case depends data-race
subroutine depends
  integer :: x, y
  x = 0
  y = 0
!$omp parallel
!$omp single
!$omp task shared(x) depend(out: x)
  x = 1 ! found
!$omp end task
!$omp task shared(x, y) depend(out: y) ! wrong
!$omp task shared(x, y) depend(in: x) depend(out: y) ! right
  y = x ! found
!$omp end task
!$omp end single
!$omp end parallel
  if (y < 0) print *, y
end subroutine

! case allocated_array data-race
subroutine allocated_array
  real, allocatable :: a(:), b(:)
  integer :: i
  allocate (a(0:100), b(0:100))
  a = 0
  b = 0
!$omp parallel do schedule(static, 5)
  do i = 1, 100
    a(i) = a(i - 1) ! wrong ! found
    a(i) = b(i - 1) ! right
  end do
end subroutine

! case thread_private data-race
module thread_private_held
  integer :: held = 0
!$omp threadprivate(held) ! right
end module
subroutine thread_private
  use thread_private_held
  integer :: i
!$omp parallel do
  do i = 1, 100
    held = held + i ! found
  end do
end subroutine

! case simd_lanes data-race
subroutine simd_lanes
  integer :: a(100), i
  a = 1
!$omp simd ! wrong
!$omp simd safelen(2) ! right
  do i = 3, 100
    a(i) = a(i - 2) + 1 ! found
  end do
  if (a(100) < 0) print *, a(100)
end subroutine

! case whole_arrays data-race
subroutine whole_arrays
  integer :: a(100), b(100)
  a = 1
  b = 0
!$omp parallel
!$omp single
  b = a + 1 ! found
!$omp end single nowait ! wrong
!$omp end single ! right
!$omp single
  a = b ! found
!$omp end single
!$omp end parallel
  if (a(100) < 0) print *, a(100)
end subroutine

! case block_data data-race
subroutine block_data
  integer :: i, last, part(10)
  common /of_all/ last, part
!$omp parallel do
  do i = 1, 100
    last = i ! wrong ! found
    if (i <= 10) part(i) = i ! right
  end do
end subroutine

! case barrier_in_a_branch missed-barrier
subroutine barrier_in_a_branch
  use omp_lib
  integer :: me
!$omp parallel private(me) ! found
  me = omp_get_thread_num()
  if (me > 0) then ! wrong
!$omp barrier ! found
  end if ! wrong
!$omp end parallel
end subroutine

! case private_without_value uninitialised-read
subroutine private_without_value
  real :: a(100)
  real :: t
  integer :: i
  t = 1
!$omp parallel do private(t) ! wrong
!$omp parallel do firstprivate(t) ! right
  do i = 1, 100
    a(i) = t ! found
  end do
  if (a(100) < -1e6) print *, a(1)
end subroutine

! case region_without_value uninitialised-read
subroutine region_without_value
  integer :: n
  integer :: a(100)
  n = 3
!$omp parallel private(n, a)
  n = 3 ! right
  if (n == 3) a(1) = 2 ! found
!$omp end parallel
end subroutine

! case other_operation wrong-reduction
subroutine other_operation
  real :: s
  integer :: i
  s = 1
!$omp parallel do reduction(+:s) ! wrong ! found
!$omp parallel do reduction(*:s) ! right
  do i = 1, 100
    s = s * (1 + 1.0 / i) ! found
  end do
  if (s < 0) print *, s
end subroutine

! case own_reduction data-race
subroutine own_reduction
  type span
    real :: low, high
  end type
!$omp declare reduction (spans: span: omp_out = span(min(omp_out%low, omp_in%low), max(omp_out%high, omp_in%high))) &
!$omp   initializer (omp_priv = span(1e9, -1e9))
  type(span) :: s
  real :: a(100)
  integer :: i
  a = [(real(i), i = 1, 100)]
  s = span(1e9, -1e9)
!$omp parallel do ! wrong
!$omp parallel do reduction(spans: s) ! right
  do i = 1, 100
    s%low = min(s%low, a(i)) ! found
    s%high = max(s%high, a(i)) ! found
  end do
  if (s%low > s%high) print *, s%low
end subroutine

! case all_memory data-race
subroutine all_memory
  implicit none
  integer :: a, b
  a = 0
  b = 0
!$omp parallel masked
!$omp task shared(a) depend(out: a)
  a = 1 ! found
!$omp end task
!$omp task shared(a, b) depend(inout: b) ! wrong
!$omp task shared(a, b) depend(inout: omp_all_memory) ! right
  a = a + b ! found
!$omp end task
!$omp end parallel masked
end subroutine

! case index_of_a_task data-race
subroutine index_of_a_task
  integer :: i, a(20)
!$omp parallel
!$omp single
  do i = 1, 20 ! found
!$omp task shared(i) ! wrong
!$omp task firstprivate(i) ! right
    a(i) = i ! found
!$omp end task
  end do
!$omp end single
!$omp end parallel
end subroutine

! case scalar_of_a_task data-race
subroutine scalar_of_a_task
  integer :: x, y
  x = 1
!$omp parallel
!$omp single
!$omp task
  y = x ! found
!$omp end task
!$omp taskwait ! right
  x = 2 ! found
!$omp end single
!$omp end parallel
end subroutine

! case workshare_without_its_end data-race
subroutine workshare_without_its_end
  real :: a(100), b(100)
  integer :: i
  a = 1
  b = 2
!$omp parallel
!$omp workshare
  b(2:100) = a(1:99) ! found
  a(2:100) = a(1:99)
!$omp end workshare nowait ! wrong
!$omp end workshare ! right
!$omp do
  do i = 1, 100
    b(i) = b(i) + 1 ! found
  end do
!$omp end parallel
!$omp parallel workshare
  a(2:100) = a(1:99)
  where (a > 0) b = a
!$omp end parallel workshare
end subroutine

