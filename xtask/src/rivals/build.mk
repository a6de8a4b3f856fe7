# Some objects of the kernel's mm, by what kbuild gives the compiler; beside `config` and
# `common`, which are Debian's headers of a kernel, and `mm`.
OBJECTS = filemap madvise memory mlock mmap readahead rmap truncate
FOLDERS = common/arch/x86/include config/arch/x86/include/generated common/include config/include \
	common/arch/x86/include/uapi config/arch/x86/include/generated/uapi common/include/uapi \
	config/include/generated/uapi mm
FIRST = common/include/linux/compiler-version.h common/include/linux/kconfig.h \
	common/include/linux/compiler_types.h
FLAGS = -nostdinc $(FOLDERS:%=-I %) $(FIRST:%=-include %) -D__KERNEL__ -DCC_USING_FENTRY -DKBUILD_MODNAME='"mm"' \
	-DKBUILD_BASENAME='"mm"' -DKBUILD_MODFILE='"mm"' -D__KBUILD_MODNAME=mm -std=gnu11 -fshort-wchar \
	-fno-strict-aliasing -fno-PIE -pg -mfentry -mno-80387 -mno-sse -mno-mmx -mno-avx -mno-red-zone \
	-mcmodel=kernel -O1 -w

all: $(OBJECTS:%=out/%.o)

out/%.o: mm/%.c
	gcc $(FLAGS) -MD -c $< -o $@
