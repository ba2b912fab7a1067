/* Who called code of C++'s library that the compiler made in the program: the place that people know. */
#include "openmp.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct function {
    uintptr_t low, high; /* less the program's start */
} *functions;
static size_t count;

static bool is_of_library(const char *name) {
    static const char *const STARTS[] = {"_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"};
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++)
        if (!strncmp(name, STARTS[i], strlen(STARTS[i]))) return true;
    return false;
}

static int by_address(const void *one, const void *two) {
    uintptr_t a = ((const struct function *)one)->low, b = ((const struct function *)two)->low;
    return (a > b) - (a < b);
}

/* `base`: what the addresses of the file are counted from. */
static void take_symbols(const char *file, size_t size, const Elf64_Shdr *table, const Elf64_Shdr *names) {
    if (table->sh_offset + table->sh_size > size || names->sh_offset + names->sh_size > size) return;
    const Elf64_Sym *all = (const void *)(file + table->sh_offset);
    size_t most = table->sh_size / sizeof *all;
    functions = real_malloc(most * sizeof *functions);
    if (!functions) return;
    bool moved = ((const Elf64_Ehdr *)(const void *)file)->e_type == ET_DYN;
    for (size_t i = 0; i < most; i++) {
        const Elf64_Sym *s = &all[i];
        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || !s->st_size || s->st_name >= names->sh_size) continue;
        if (!is_of_library(file + names->sh_offset + s->st_name)) continue;
        uintptr_t low = s->st_value - (moved ? 0 : now.start);
        functions[count++] = (struct function){low, low + s->st_size};
    }
    qsort(functions, count, sizeof *functions, by_address);
}

void callers_open(void) {
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
            take_symbols(file, size, &sections[i], &sections[sections[i].sh_link]);
    munmap(file, size);
}

bool is_library_place(uint32_t place) {
    if (!count || place < functions[0].low) return false;
    size_t at = up_to(functions, count, sizeof *functions, offsetof(struct function, low), place - 1);
    return at && place - 1 < functions[at - 1].high;
}

extern char __start_weft_hooks, __stop_weft_hooks;

static bool is_access(uintptr_t pc, uint32_t place) {
    return place_of(pc) == place || (pc >= (uintptr_t)&__start_weft_hooks && pc < (uintptr_t)&__stop_weft_hooks);
}

uint32_t caller_of(uint32_t place) {
    bool found = false;
    for (uintptr_t frame = FRAME; frame >= me->stack_low && frame + 16 <= me->stack_high;) {
        const uintptr_t *at = (const uintptr_t *)frame;
        if (found && (at[1] - now.start >= now.text || !is_library_place(place_of(at[1]))))
            return at[1] - now.start < now.text ? place_of(at[1]) : 0;
        found = found || is_access(at[1], place);
        if (at[0] <= frame) break;
        frame = at[0];
    }
    return 0;
}
