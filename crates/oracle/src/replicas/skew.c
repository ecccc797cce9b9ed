/* A library that sets the wall clock of a process ahead by CLOCK_SKEW seconds. The process must preload it. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    const char *skew = getenv("CLOCK_SKEW");
    if (!failed && clock == CLOCK_REALTIME && skew)
        now->tv_sec += atol(skew);
    return failed;
}
