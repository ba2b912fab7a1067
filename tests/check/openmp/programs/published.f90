! case largest data-race
subroutine largest
  integer :: v(64), best, i
  v = 0
  best = 1
!$omp parallel do
  do i = 2, 64
    v(i) = mod(i * 7, 64) ! right
!$omp critical
    if (v(i) >= v(best)) best = i ! found
!$omp end critical
    v(i) = mod(i * 7, 64) ! wrong ! found
  end do
end subroutine

! case list data-race
subroutine list
  type item
    integer :: value
    type(item), pointer :: next
  end type
  type(item), pointer :: head, one
  integer :: i, longest
  nullify(head)
  longest = 0
!$omp parallel do private(one)
  do i = 1, 64
    allocate(one)
    one%value = i ! right
!$omp critical
    one%next => head
    if (associated(head)) longest = max(longest, head%value) ! found
    head => one
!$omp end critical
    one%value = i ! wrong ! found
  end do
end subroutine

! case words data-race
subroutine words
  integer :: bits(0:63), i
  bits = 0
!$omp parallel do schedule(dynamic, 30) ! wrong
!$omp parallel do ! right
  do i = 0, 64 * 30 - 1
!$omp atomic ! right
    bits(i / 30) = ior(bits(i / 30), ishft(1, mod(i, 30))) ! found
  end do
end subroutine
