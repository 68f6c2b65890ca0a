// Definition of a variable of glibc 2.32, so that a shim compiled on a newer system can be loaded with glibc 2.28, as PyTorch can.
//
// libstdc++ reads it to count references without atomic operations while a process has one thread. 0 means that other threads
// may exist, which is always safe. The definition is hidden: other libraries keep using glibc's.

extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;
