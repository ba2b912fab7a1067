#include "interface.inc"
! A Fortran program's own log of its MPI calls, in the form that log.h draws. Compiled once for each of the three
! interfaces: -DMPIF_H, -DUSE_MPI or -DUSE_MPI_F08.
module call_log

  use, intrinsic :: iso_fortran_env, only: int64
#if defined(USE_MPI)
  use mpi
#elif defined(USE_MPI_F08)
  use mpi_f08
#endif
  implicit none
#ifdef MPIF_H
  include 'mpif.h'
#endif
  integer :: unit
  character(len=16384) :: text
  integer :: length = 0

  interface put
    module procedure put_int, put_ints, put_table, put_long, put_longs, put_logical, put_logicals, put_string
#ifdef USE_MPI_F08
    module procedure put_comm, put_datatype, put_group, put_op, put_request, put_win, put_file, put_info, put_message
    module procedure put_errhandler, put_requests, put_datatypes, put_status, put_statuses
#endif
  end interface

contains

  subroutine open_log()
    character(len=4096) :: folder
    character(len=32) :: name
    call get_environment_variable('MATRIX_LOG', folder)
    write (name, '(i0, a)') getpid(), '.log'
    open (newunit=unit, file=trim(folder)//'/'//trim(name), action='write', recl=20000)
  end subroutine

  subroutine add(s)
    character(len=*), intent(in) :: s
    text(length + 1:length + len(s)) = s
    length = length + len(s)
  end subroutine

  subroutine begin_call(line, name)
    integer, intent(in) :: line
    character(len=*), intent(in) :: name
    length = 0
    call add('0'//achar(9)//decimal(int(line, int64))//achar(9)//name)
  end subroutine

  subroutine then_after()
    call add(achar(9)//'=>')
  end subroutine

  subroutine end_call(result)
    integer, intent(in) :: result
    call add(achar(9)//'='//achar(9)//decimal(int(result, int64)))
    write (unit, '(a)') text(1:length)
    flush (unit)
  end subroutine

  subroutine put_seconds(x)
    double precision, intent(in) :: x
    character(len=40) :: s
    write (s, '(es32.24e3)') x
    call add(achar(9)//trim(adjustl(s)))
  end subroutine

  function decimal(n) result(s)
    integer(int64), intent(in) :: n
    character(len=:), allocatable :: s
    character(len=24) :: digits
    write (digits, '(i0)') n
    s = trim(digits)
  end function

  function at(n) result(s)
    integer(int64), intent(in) :: n
    character(len=:), allocatable :: s
    character(len=24) :: digits
    write (digits, '(z0)') n
    s = achar(9)//'0x'//trim(digits)
  end function

  subroutine put_int(x)
    integer, intent(in) :: x
    call add(achar(9)//decimal(int(x, int64)))
  end subroutine

  subroutine put_long(x)
    integer(int64), intent(in) :: x
    call add(achar(9)//decimal(x))
  end subroutine

  subroutine put_logical(x)
    logical, intent(in) :: x
    call add(achar(9)//merge('1', '0', x))
  end subroutine

  subroutine put_string(x)
    character(len=*), intent(in) :: x
    call add(achar(9)//'"'//trim(x)//'"')
  end subroutine

  subroutine put_ints(x)
    integer, intent(in) :: x(:)
    call items(loc(x), int(x, int64))
  end subroutine

  subroutine put_table(x)
    integer, intent(in) :: x(:, :)
    call items(loc(x), int(reshape(x, [size(x)]), int64))
  end subroutine

  subroutine put_longs(x)
    integer(int64), intent(in) :: x(:)
    call items(loc(x), x)
  end subroutine

  subroutine put_logicals(x)
    logical, intent(in) :: x(:)
    call items(loc(x), merge(1_int64, 0_int64, x))
  end subroutine

  subroutine items(address, values)
    integer(int64), intent(in) :: address, values(:)
    integer :: i
    call add(at(address)//'{')
    do i = 1, size(values)
      if (i > 1) call add(',')
      call add(decimal(values(i)))
    end do
    call add('}')
  end subroutine

#ifdef USE_MPI_F08
#define PUT_HANDLE(name, kind) subroutine name(x) ; type(kind), intent(in) :: x ; call put_int(x%MPI_VAL) ; end subroutine
  PUT_HANDLE(put_comm, MPI_Comm)
  PUT_HANDLE(put_datatype, MPI_Datatype)
  PUT_HANDLE(put_group, MPI_Group)
  PUT_HANDLE(put_op, MPI_Op)
  PUT_HANDLE(put_request, MPI_Request)
  PUT_HANDLE(put_win, MPI_Win)
  PUT_HANDLE(put_file, MPI_File)
  PUT_HANDLE(put_info, MPI_Info)
  PUT_HANDLE(put_message, MPI_Message)
  PUT_HANDLE(put_errhandler, MPI_Errhandler)

  subroutine put_requests(x)
    type(MPI_Request), intent(in) :: x(:)
    call items(loc(x), int(x%MPI_VAL, int64))
  end subroutine

  subroutine put_datatypes(x)
    type(MPI_Datatype), intent(in) :: x(:)
    call items(loc(x), int(x%MPI_VAL, int64))
  end subroutine

  subroutine put_status(x)
    type(MPI_Status), intent(in) :: x
    call add(at(loc(x))//'{<'//decimal(int(x%MPI_SOURCE, int64))//';'//decimal(int(x%MPI_TAG, int64))//'>}')
  end subroutine

  subroutine put_statuses(x)
    type(MPI_Status), intent(in) :: x(:)
    integer :: i
    call add(at(loc(x))//'{')
    do i = 1, size(x)
      if (i > 1) call add(',')
      call add('<'//decimal(int(x(i)%MPI_SOURCE, int64))//';'//decimal(int(x(i)%MPI_TAG, int64))//'>')
    end do
    call add('}')
  end subroutine
#endif

  subroutine constant(name, number)
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: number
    write (unit, '(a)') 'constant'//achar(9)//name//achar(9)//decimal(number)
  end subroutine

#define CONSTANT(name) call constant("name", int(name, int64))
#define PLACE(name) call constant("name", loc(name))
#define HANDLE(class, name) length = 0 ; call put(name) ; write (unit, '(a)') "handle"//achar(9)//"class"//achar(9)//"name"//text(1:length)

  subroutine meanings()
    CONSTANT(MPI_ANY_SOURCE)
    CONSTANT(MPI_PROC_NULL)
    CONSTANT(MPI_ROOT)
    CONSTANT(MPI_ANY_TAG)
    CONSTANT(MPI_UNDEFINED)
    CONSTANT(MPI_LOCK_EXCLUSIVE)
    CONSTANT(MPI_LOCK_SHARED)
    CONSTANT(MPI_MODE_NOCHECK)
    CONSTANT(MPI_MODE_NOSTORE)
    CONSTANT(MPI_MODE_NOPUT)
    CONSTANT(MPI_MODE_NOPRECEDE)
    CONSTANT(MPI_MODE_NOSUCCEED)
#ifndef USE_MPI_F08
    CONSTANT(MPI_STATUS_SIZE)
    CONSTANT(MPI_SOURCE)
    CONSTANT(MPI_TAG)
#endif
    PLACE(MPI_IN_PLACE)
    PLACE(MPI_BOTTOM)
    PLACE(MPI_STATUS_IGNORE)
    PLACE(MPI_STATUSES_IGNORE)
    HANDLE(COMM, MPI_COMM_NULL)
    HANDLE(COMM, MPI_COMM_WORLD)
    HANDLE(COMM, MPI_COMM_SELF)
    HANDLE(DATATYPE, MPI_DATATYPE_NULL)
    HANDLE(DATATYPE, MPI_INTEGER)
    HANDLE(DATATYPE, MPI_DOUBLE_PRECISION)
    HANDLE(DATATYPE, MPI_REAL)
    HANDLE(DATATYPE, MPI_CHARACTER)
    HANDLE(DATATYPE, MPI_LOGICAL)
    HANDLE(DATATYPE, MPI_BYTE)
    HANDLE(DATATYPE, MPI_PACKED)
    HANDLE(DATATYPE, MPI_2INTEGER)
    HANDLE(OP, MPI_SUM)
    HANDLE(OP, MPI_MAX)
    HANDLE(OP, MPI_MAXLOC)
    HANDLE(OP, MPI_REPLACE)
    HANDLE(GROUP, MPI_GROUP_NULL)
    HANDLE(GROUP, MPI_GROUP_EMPTY)
    HANDLE(REQUEST, MPI_REQUEST_NULL)
    HANDLE(WINDOW, MPI_WIN_NULL)
    HANDLE(FILE, MPI_FILE_NULL)
    HANDLE(INFO, MPI_INFO_NULL)
    HANDLE(MESSAGE, MPI_MESSAGE_NULL)
    HANDLE(ERRHANDLER, MPI_ERRORS_RETURN)
    HANDLE(ERRHANDLER, MPI_ERRORS_ARE_FATAL)
  end subroutine

end module
