/* Reads a file five times, and says before that it is read in cycles. */
#include <fcntl.h>
#include <pantler.h>
#include <unistd.h>

int main(int count, char **words) {
    static char bytes[65536];
    int file = count > 1 ? open(words[1], O_RDONLY) : -1;
    if (file < 0 || pantler_set_policy(0, "mru"))
        return 1;
    for (int pass = 0; pass < 5; pass++, lseek(file, 0, SEEK_SET))
        while (read(file, bytes, sizeof bytes) > 0) {}
    return 0;
}
