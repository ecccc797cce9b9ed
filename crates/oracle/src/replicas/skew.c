/* Preloaded into a process, this sets its wall clock ahead by CLOCK_SKEW seconds. */
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
