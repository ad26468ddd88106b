/* Preloaded into user-mode Linux where the CPU has more registers than it knows of (AMX): the host's kernel takes the
 * extended state of a process only whole (arch/x86/kernel/fpu/regset.c, Linux 6.1: -EFAULT otherwise), and UML 6.1 hands
 * back the first 2,696 bytes that it was built for. What is behind these stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define XSTATE 0x202L /* NT_X86_XSTATE */

long ptrace(enum __ptrace_request request, ...) {
    static long (*plain)(enum __ptrace_request, ...);
    static char whole[1 << 16];
    va_list args;
    va_start(args, request);
    long pid = va_arg(args, long), what = va_arg(args, long);
    void *data = va_arg(args, void *);
    va_end(args);
    if (request == PTRACE_SETREGSET && what == XSTATE) {
        struct iovec *given = data, all = {whole, sizeof whole};
        if (!syscall(SYS_ptrace, PTRACE_GETREGSET, pid, what, &all) && given->iov_len < all.iov_len) {
            memcpy(whole, given->iov_base, given->iov_len);
            return syscall(SYS_ptrace, request, pid, what, &all);
        }
    }
    if (!plain)
        plain = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
    return plain(request, pid, what, data);
}
