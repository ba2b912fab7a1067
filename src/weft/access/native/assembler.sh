#!/bin/sh
# Stands before the assembler where `weft cc` compiles: the call of a hook becomes three instructions and a branch around
# it, for the compiler has no such form. What the hook would look at first is looked at there: whether the address, in
# %rdi, lies in the range that is of interest. %rax and the flags are the callee's to change.
real=@ASSEMBLER@
source= skip=
for word do
    case $skip$word in
    -o | -I | --defsym | -MD) skip=1 ;;
    1*) skip= ;;
    *.s) source=$word ;;
    esac
done
work=$(mktemp "${TMPDIR:-/tmp}/weft-cc-XXXXXX") || exec "$real" "$@"
trap 'rm -f "$work"' EXIT
sed -E -e 's/^\tcall\t__tsan_((volatile_)?(read|write)[0-9]+)(@PLT)?$/\tmovq\t%rdi, %rax\n\tsubq\tweft_hook_low(%rip), %rax\n\tcmpq\tweft_hook_span(%rip), %rax\n\tjae\t77775f\n&\n77775:/' \
    -e '$a\	.hidden\tweft_hook_low\n\t.hidden\tweft_hook_span' ${source:+"$source"} >"$work" || exit 1
left=$# replaced=
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    if [ "$word" = "${source:--}" ]; then word=$work replaced=1; fi
    set -- "$@" "$word"
    left=$((left - 1))
done
[ "$replaced" ] || set -- "$@" "$work"
"$real" "$@"
