#!/bin/sh
# Stands before the assembler where `weft cc` compiles: the call of a hook becomes four instructions and a branch around
# it, for the compiler has no such form. What the hook would look at first is looked at there: whether anything in the
# page of the address, in %rdi, is of interest. %rax, %rcx and the flags are the callee's to change.
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
page='\tmovl\t%edi, %eax\n\tleaq\tweft_hook_pages(%rip), %rcx\n\tshrl\t$12, %eax'
sed -E -e "s/^\tcall\t__tsan_(volatile_)?read[0-9]+(@PLT)?\$/$page\n\ttestb\t\$1, (%rcx,%rax)\n\tje\t77775f\n&\n77775:/" \
    -e "s/^\tcall\t__tsan_(volatile_)?write[0-9]+(@PLT)?\$/$page\n\ttestb\t\$3, (%rcx,%rax)\n\tje\t77775f\n&\n77775:/" \
    -e '$a\	.hidden\tweft_hook_pages' ${source:+"$source"} >"$work" || exit 1
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
