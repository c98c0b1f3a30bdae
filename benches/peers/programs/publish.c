/* Makes a small file that survives a crash: writes it under another name, fsyncs it, renames it, fsyncs the directory.
 * publish DIR: makes DIR/out of 1 KiB. The floor of a command that does the same with its result. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    char bytes[1024];
    if (count != 2 || chdir(arguments[1]) != 0) {
        fputs("usage: publish DIR\n", stderr);
        return 2;
    }
    memset(bytes, 'x', sizeof bytes);
    int file = open("out.new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int dir = open(".", O_RDONLY | O_DIRECTORY);
    int is_made = file >= 0 && dir >= 0 && write(file, bytes, sizeof bytes) == sizeof bytes && fsync(file) == 0 &&
                  rename("out.new", "out") == 0 && fsync(dir) == 0;
    if (!is_made) {
        perror("publish");
    }
    return is_made ? 0 : 1;
}
