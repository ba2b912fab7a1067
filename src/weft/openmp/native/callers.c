/* Who called code of C++'s library that the compiler made in the program: the place that people know. */
#include "openmp.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool *
    weft_library_places; /* whether a place (a code address less the program's start) lies in code of the C++ library */

/* Return whether a mangled name belongs to a function of the C++ standard library. */
static bool is_library_symbol(const char *name) {
    static const char *const STARTS[] = {"_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"};
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++)
        if (!strncmp(name, STARTS[i], strlen(STARTS[i]))) return true;
    return false;
}

/* Note the places of the C++ library's functions by an ELF symbol table and its string table. `file` is the mapped
 * program, `size` bytes long. */
static void read_function_symbols(const char *file, size_t size, const Elf64_Shdr *table, const Elf64_Shdr *names) {
    if (table->sh_offset + table->sh_size > size || names->sh_offset + names->sh_size > size) return;
    const Elf64_Sym *symbols = (const void *)(file + table->sh_offset);
    size_t symbol_count = table->sh_size / sizeof *symbols;
    bool is_relocatable = ((const Elf64_Ehdr *)(const void *)file)->e_type == ET_DYN;
    for (size_t i = 0; i < symbol_count; i++) {
        const Elf64_Sym *symbol = &symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_size || symbol->st_name >= names->sh_size)
            continue;
        if (!is_library_symbol(file + names->sh_offset + symbol->st_name)) continue;
        uintptr_t low = symbol->st_value - (is_relocatable ? 0 : now.start);
        if (low + symbol->st_size < PLACES) memset(weft_library_places + low + 1, true, symbol->st_size);
    }
}

/* Read from the program's own ELF file which of its code belongs to the C++ library. If that fails, no code counts as
 * library code. */
void read_library_functions(void) {
    int fd = open("/proc/self/exe", O_RDONLY);
    struct stat about;
    if (fd < 0) return;
    size_t size = fstat(fd, &about) ? 0 : (size_t)about.st_size;
    char *file = size < sizeof(Elf64_Ehdr) ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED) return;
    const Elf64_Ehdr *head = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + head->e_shoff);
    bool fits = head->e_shoff + (size_t)head->e_shnum * sizeof *sections <= size;
    for (int i = 0; fits && i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < head->e_shnum)
            read_function_symbols(file, size, &sections[i], &sections[sections[i].sh_link]);
    munmap(file, size);
}

extern char __start_weft_hooks, __stop_weft_hooks;

/* Return whether a return address is that of the access at a place, or of a hook. */
static bool is_access_or_hook(uintptr_t pc, uint32_t place) {
    return place_of(pc) == place || (pc >= (uintptr_t)&__start_weft_hooks && pc < (uintptr_t)&__stop_weft_hooks);
}

/* Return the place in the program's own code that called into the C++ library at `place`, found by walking the running
 * thread's frames; 0 if they do not show it. */
uint32_t find_library_caller(uint32_t place) {
    bool is_access_passed = false;
    for (uintptr_t frame = FRAME; frame >= me->stack_low && frame + 16 <= me->stack_high;) {
        const uintptr_t *words = (const uintptr_t *)frame;
        if (is_access_passed && (words[1] - now.start >= now.text || !is_library_place(place_of(words[1]))))
            return words[1] - now.start < now.text ? place_of(words[1]) : 0;
        is_access_passed = is_access_passed || is_access_or_hook(words[1], place);
        if (words[0] <= frame) break;
        frame = words[0];
    }
    return 0;
}
