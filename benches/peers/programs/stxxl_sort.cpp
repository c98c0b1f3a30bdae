// Sorts a file of little-endian u64 keys with STXXL 1.4.1's stxxl::sorter.
//
// Model: Dementiev and Sanders, "Asynchronous parallel disk sorting", SPAA 2003: runs are formed in memory and written,
// then merged with prefetching. This program is the fairest form of it that STXXL's interface allows:
//   - input and output are raw files behind linuxaio (direct, asynchronous), read and written through STXXL's own
//     overlapped buffered readers and writers, so no pass goes through the page cache;
//   - the vectors over both files keep one page of one block instead of the default 64 MiB of cache;
//   - the sorter gets the whole memory except for the blocks of those streams;
//   - compiled with OpenMP: Debian's build leaves the parallel mode to the program (STXXL_PARALLEL_MODE_EXPLICIT);
//     OMP_NUM_THREADS threads then sort and merge the runs;
//   - 2 MiB blocks (its default for this type), or 256 KiB if the memory is so small that 2 MiB blocks would require a
//     second merge pass.
// The `.stxxl` file in the working directory defines the scratch files.
//
// Memory: `MEMORY_BYTES` plus the memory of OpenMP and the libraries. I/O: input read once, runs written and read once,
// output written once.
//
// Usage: stxxl_sort INPUT OUTPUT MEMORY_BYTES
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <vector>

#include <stxxl/io>
#include <stxxl/sorter>
#include <stxxl/vector>

namespace {

using Key = std::uint64_t;

constexpr unsigned kBlockBytesLarge = 2 * 1024 * 1024;
constexpr unsigned kBlockBytesSmall = 256 * 1024;
constexpr std::uint64_t kMemoryBytesForLargeBlocks = 256ULL << 20;
constexpr std::uint64_t kMemoryBytesMin = 16ULL << 20;
// Reader and writer together hold at most this many blocks, whose bytes are not available to the sorter.
constexpr std::uint64_t kStreamBlocks = 8;

struct Ascending {
    bool operator()(Key left, Key right) const { return left < right; }
    Key min_value() const { return std::numeric_limits<Key>::min(); }
    Key max_value() const { return std::numeric_limits<Key>::max(); }
};

template <unsigned BlockBytes>
class FileSort {
    using Sorter = stxxl::sorter<Key, Ascending, BlockBytes>;
    // Template arguments: value, blocks per page, pages kept, block bytes.
    using Keys = typename stxxl::VECTOR_GENERATOR<Key, 1, 1, BlockBytes>::result;
    static constexpr std::uint64_t kBlockKeys = BlockBytes / sizeof(Key);

public:
    explicit FileSort(std::uint64_t memory_bytes) : sorter_(Ascending(), memory_bytes - kStreamBlocks * BlockBytes) {}

    void run(const char* input, const char* output) {
        const std::uint64_t count = push_file(input);
        sorter_.sort();
        write_file(output, count);
    }

private:
    std::uint64_t push_file(const char* path) {
        stxxl::linuxaio_file file(path, stxxl::file::RDONLY | stxxl::file::DIRECT);
        const std::uint64_t count = file.size() / sizeof(Key);
        const std::uint64_t whole = count / kBlockKeys * kBlockKeys;
        if (whole > 0) {
            Keys keys(&file, whole);
            typename Keys::bufreader_type reader(keys);
            for (; !reader.empty(); ++reader) sorter_.push(*reader);
        }
        if (count > whole) push_tail(path, whole, count - whole);
        return count;
    }

    // A vector over a file covers whole blocks only, so the keys after the last whole block are read separately.
    void push_tail(const char* path, std::uint64_t first_key, std::uint64_t count) {
        std::FILE* file = std::fopen(path, "rb");
        if (file == nullptr) throw std::runtime_error("cannot open the input's tail");
        std::vector<Key> tail(count);
        const bool complete = std::fseek(file, static_cast<long>(first_key * sizeof(Key)), SEEK_SET) == 0 &&
                              std::fread(tail.data(), sizeof(Key), count, file) == count;
        std::fclose(file);
        if (!complete) throw std::runtime_error("cannot read the input's tail");
        for (Key key : tail) sorter_.push(key);
    }

    void write_file(const char* path, std::uint64_t count) {
        using stxxl::file;
        stxxl::linuxaio_file output(path, file::RDWR | file::CREAT | file::TRUNC | file::DIRECT);
        Keys keys(&output, 0);
        keys.resize(count);
        typename Keys::bufwriter_type writer(keys.begin());
        for (; !sorter_.empty(); ++sorter_) writer << *sorter_;
        writer.finish();
        // The vector's destructor cuts the file, which holds whole blocks until then, to `count` keys.
    }

    Sorter sorter_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::cerr << "usage: stxxl_sort INPUT OUTPUT MEMORY_BYTES\n";
        return 2;
    }
    const std::uint64_t memory_bytes = std::strtoull(argv[3], nullptr, 10);
    if (memory_bytes < kMemoryBytesMin) {
        std::cerr << "stxxl_sort: needs at least " << kMemoryBytesMin << " bytes of memory\n";
        return 2;
    }
    try {
        if (memory_bytes >= kMemoryBytesForLargeBlocks) {
            FileSort<kBlockBytesLarge>(memory_bytes).run(argv[1], argv[2]);
        } else {
            FileSort<kBlockBytesSmall>(memory_bytes).run(argv[1], argv[2]);
        }
    } catch (const std::exception& error) {
        std::cerr << "stxxl_sort: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
