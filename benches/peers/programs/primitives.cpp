// Inputs and checks of bench_primitives.py, written only from the definitions, without any code of outcore.
//
//   text LINES SEED OUT               lines of one to ten words, 32.5 bytes each on average
//   repeats LINES DISTINCT SEED OUT   lines drawn uniformly from DISTINCT different ones of that kind
//   positions COUNT RANGE SEED OUT    uniform u64 below RANGE, as raw little-endian numbers
//   lines FILE...                     {"records", "bytes", "mix"}: of lines, in any order
//   keys FILE...                      {"records", "sum", "mix"}: of u64, in any order
//   map|filter|scan IN... -- OUT...   {"right", "records"}: is OUT the primitive's result for IN?
//   gather POSITIONS IN... -- OUT...  the same
//
// Consecutive files are one sequence. `mix` is the sum modulo 2^64 of splitmix64's finaliser (Steele, Lea, Flood, OOPSLA
// 2014) over all lines or keys. Equal counts, sums and mixes mean equal multisets up to a chance of about 2^-64. There
// are 2^16 words of two to eight lower-case letters; the word of rank r is chosen with probability proportional to 1/r.
// Lines therefore share long beginnings and short lines repeat, as in logs.
//
// Memory: a few buffers of 4 MiB, and for `repeats` the distinct lines. Exit code 2 with a message on stderr on failure.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

using Words = std::vector<std::string>;

constexpr size_t kBufferBytes = 4 << 20;
constexpr size_t kVocabulary = 1 << 16;
constexpr size_t kQuantiles = 1 << 20;

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "primitives: %s\n", what.c_str());
    std::exit(2);
}

[[noreturn]] void fail_at(const std::string& path) { fail(path + ": " + std::strerror(errno)); }

uint64_t splitmix(uint64_t value) {
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(splitmix(seed)) {}
    uint64_t next() { return splitmix(state_++); }
    uint64_t below(uint64_t bound) { return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64); }

  private:
    uint64_t state_;
};

uint64_t number(const std::string& text) {
    char* end = nullptr;
    const uint64_t value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || *end != 0) fail("'" + text + "' is no number");
    return value;
}

class Writer {
  public:
    explicit Writer(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {
        if (file_ == nullptr) fail_at(path);
        std::setvbuf(file_, nullptr, _IOFBF, kBufferBytes);
    }
    void put(const void* bytes, size_t count) {
        if (std::fwrite(bytes, 1, count, file_) != count) fail_at(path_);
    }
    void close() {
        if (std::fclose(file_) != 0) fail_at(path_);
    }

  private:
    std::string path_;
    FILE* file_;
};

// Keys of several files as one sequence.
class Keys {
  public:
    explicit Keys(const Words& paths) : paths_(paths), buffer_(kBufferBytes / 8) {}
    bool next(uint64_t& key) {
        if (at_ == filled_ && !fill()) return false;
        key = buffer_[at_++];
        return true;
    }

  private:
    bool fill() {
        at_ = filled_ = 0;
        while (filled_ == 0) {
            if (file_ == nullptr) {
                if (next_path_ == paths_.size()) return false;
                file_ = std::fopen(paths_[next_path_].c_str(), "rb");
                if (file_ == nullptr) fail_at(paths_[next_path_]);
                std::setvbuf(file_, nullptr, _IONBF, 0);
                ++next_path_;
            }
            const size_t bytes = std::fread(buffer_.data(), 1, kBufferBytes, file_);
            if (bytes % 8 != 0) fail(paths_[next_path_ - 1] + ": no multiple of 8 bytes");
            filled_ = bytes / 8;
            if (filled_ == 0) {
                std::fclose(file_);
                file_ = nullptr;
            }
        }
        return true;
    }

    Words paths_;
    std::vector<uint64_t> buffer_;
    size_t at_ = 0, filled_ = 0, next_path_ = 0;
    FILE* file_ = nullptr;
};

// The bytes of a file; empty for an empty file.
class Mapped {
  public:
    explicit Mapped(const std::string& path) {
        const int descriptor = open(path.c_str(), O_RDONLY);
        struct stat facts;
        if (descriptor < 0 || fstat(descriptor, &facts) != 0) fail_at(path);
        size_ = static_cast<size_t>(facts.st_size);
        if (size_ > 0) {
            void* area = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
            if (area == MAP_FAILED) fail_at(path);
            madvise(area, size_, MADV_SEQUENTIAL);
            bytes_ = static_cast<const char*>(area);
        }
        close(descriptor);
    }
    ~Mapped() {
        if (bytes_ != nullptr) munmap(const_cast<char*>(bytes_), size_);
    }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    const char* begin() const { return bytes_; }
    const char* end() const { return bytes_ + size_; }

  private:
    const char* bytes_ = nullptr;
    size_t size_ = 0;
};

// Makes lines; each ends with a newline.
class Text {
  public:
    explicit Text(uint64_t seed) : random_(seed) {
        Random letters(seed + 1);
        for (size_t word = 0; word < kVocabulary; ++word) {
            std::string made(2 + letters.below(7), 'a');
            for (char& letter : made) letter = static_cast<char>('a' + letters.below(26));
            vocabulary_.push_back(made + ' ');
        }
        double total = 0, sum = 0;
        for (size_t rank = 1; rank <= kVocabulary; ++rank) total += 1.0 / static_cast<double>(rank);
        for (size_t rank = 1; rank <= kVocabulary; ++rank) {
            sum += 1.0 / static_cast<double>(rank);
            const size_t end = std::min(kQuantiles, static_cast<size_t>(sum / total * kQuantiles + 0.5));
            ranks_.resize(std::max(ranks_.size(), end), static_cast<uint32_t>(rank - 1));
        }
        ranks_.resize(kQuantiles, static_cast<uint32_t>(kVocabulary - 1));
    }
    void line(std::string& line, uint64_t words_min) {
        line.clear();
        for (uint64_t left = words_min + random_.below(11 - words_min); left > 0; --left)
            line += vocabulary_[ranks_[random_.next() % kQuantiles]];
        line.back() = '\n';
    }

  private:
    Random random_;
    Words vocabulary_;
    std::vector<uint32_t> ranks_;
};

void make_text(uint64_t lines, uint64_t seed, const std::string& path) {
    Text text(seed);
    Writer out(path);
    std::string line;
    for (; lines > 0; --lines) {
        text.line(line, 1);
        out.put(line.data(), line.size());
    }
    out.close();
}

void make_repeats(uint64_t lines, uint64_t distinct, uint64_t seed, const std::string& path) {
    Text text(seed);
    std::unordered_set<std::string> seen;
    Words chosen;
    std::string line;
    while (chosen.size() < distinct) {
        // Lines of fewer than three words do not give enough distinct lines.
        text.line(line, 3);
        if (seen.insert(line).second) chosen.push_back(line);
    }
    Random random(seed + 2);
    Writer out(path);
    for (; lines > 0; --lines) {
        const std::string& drawn = chosen[random.below(distinct)];
        out.put(drawn.data(), drawn.size());
    }
    out.close();
}

void make_positions(uint64_t count, uint64_t range, uint64_t seed, const std::string& path) {
    Random random(seed);
    Writer out(path);
    for (; count > 0; --count) {
        const uint64_t position = random.below(range);
        out.put(&position, sizeof position);
    }
    out.close();
}

uint64_t mix_line(const char* at, size_t bytes) {
    uint64_t mixed = splitmix(bytes);
    for (; bytes > 0;) {
        uint64_t word = 0;
        const size_t step = std::min<size_t>(bytes, 8);
        std::memcpy(&word, at, step);
        mixed = splitmix(mixed ^ word);
        at += step;
        bytes -= step;
    }
    return mixed;
}

void sum_lines(const Words& paths) {
    uint64_t lines = 0, bytes = 0, mix = 0;
    for (const std::string& path : paths) {
        const Mapped mapped(path);
        for (const char* at = mapped.begin(); at != mapped.end();) {
            const size_t left = static_cast<size_t>(mapped.end() - at);
            const void* found = std::memchr(at, '\n', left);
            if (found == nullptr) fail(path + ": the last line has no end");
            const char* end = static_cast<const char*>(found) + 1;
            mix += mix_line(at, static_cast<size_t>(end - at));
            bytes += static_cast<size_t>(end - at);
            ++lines;
            at = end;
        }
    }
    std::printf("{\"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"mix\": %" PRIu64 "}\n", lines, bytes, mix);
}

std::string decimal(unsigned __int128 value) {
    std::string digits;
    do {
        digits += static_cast<char>('0' + static_cast<int>(value % 10));
        value /= 10;
    } while (value > 0);
    return {digits.rbegin(), digits.rend()};
}

void sum_keys(const Words& paths) {
    Keys keys(paths);
    unsigned __int128 sum = 0;
    uint64_t count = 0, mix = 0, key = 0;
    while (keys.next(key)) {
        sum += key;
        mix += splitmix(key);
        ++count;
    }
    std::printf("{\"records\": %" PRIu64 ", \"sum\": %s, \"mix\": %" PRIu64 "}\n", count, decimal(sum).c_str(), mix);
}

// Compares a primitive's expected result, passed key by key, with the actual output.
class Comparison {
  public:
    explicit Comparison(const Words& outputs) : found_(outputs) {}
    void expect(uint64_t wanted) {
        uint64_t key = 0;
        if (is_right_ && !(found_.next(key) && key == wanted)) is_right_ = false;
        if (is_right_) ++records_;
    }
    void report() {
        uint64_t key = 0;
        if (is_right_ && found_.next(key)) is_right_ = false;
        std::printf("{\"right\": %s, \"records\": %" PRIu64 "}\n", is_right_ ? "true" : "false", records_);
    }

  private:
    Keys found_;
    bool is_right_ = true;
    uint64_t records_ = 0;
};

// The functions are those of peerbench/primitive_tools.py: 3 x + 1 modulo 2^64, even keys, inclusive sums.
void check_sequence(const std::string& mode, const Words& inputs, const Words& outputs) {
    Keys keys(inputs);
    Comparison comparison(outputs);
    uint64_t key = 0, sum = 0;
    while (keys.next(key)) {
        sum += key;
        if (mode == "map") comparison.expect(3 * key + 1);
        if (mode == "filter" && key % 2 == 0) comparison.expect(key);
        if (mode == "scan") comparison.expect(sum);
    }
    comparison.report();
}

void check_gather(const std::string& positions, const Words& inputs, const Words& outputs) {
    std::vector<Mapped*> files;
    for (const std::string& path : inputs) files.push_back(new Mapped(path));
    Keys wanted({positions});
    Comparison comparison(outputs);
    uint64_t position = 0;
    while (wanted.next(position)) {
        uint64_t at = position * 8, key = 0;
        bool is_found = false;
        for (const Mapped* file : files) {
            const uint64_t size = static_cast<uint64_t>(file->end() - file->begin());
            if (!is_found && at < size) {
                std::memcpy(&key, file->begin() + at, sizeof key);
                is_found = true;
            }
            at -= is_found ? 0 : size;
        }
        if (!is_found) fail("a position lies behind the end");
        comparison.expect(key);
    }
    comparison.report();
    for (const Mapped* file : files) delete file;
}

int run(const Words& words) {
    if (words.empty()) fail("what? See the head of its source");
    const std::string& mode = words[0];
    const Words rest(words.begin() + 1, words.end());
    const auto split = std::find(rest.begin(), rest.end(), "--");
    const bool is_split = split != rest.end();
    if (mode == "text" && rest.size() == 3) {
        make_text(number(rest[0]), number(rest[1]), rest[2]);
    } else if (mode == "repeats" && rest.size() == 4) {
        make_repeats(number(rest[0]), number(rest[1]), number(rest[2]), rest[3]);
    } else if (mode == "positions" && rest.size() == 4) {
        make_positions(number(rest[0]), number(rest[1]), number(rest[2]), rest[3]);
    } else if (mode == "lines" && !rest.empty()) {
        sum_lines(rest);
    } else if (mode == "keys" && !rest.empty()) {
        sum_keys(rest);
    } else if ((mode == "map" || mode == "filter" || mode == "scan") && is_split) {
        check_sequence(mode, {rest.begin(), split}, {split + 1, rest.end()});
    } else if (mode == "gather" && is_split && rest.size() >= 4) {
        check_gather(rest[0], {rest.begin() + 1, split}, {split + 1, rest.end()});
    } else {
        fail("cannot " + mode + " with these words. See the head of its source");
    }
    return 0;
}

}  // namespace

int main(int count, char** values) { return run({values + 1, values + count}); }
