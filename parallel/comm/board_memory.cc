#include "parallel/comm/board_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace trireme {
namespace {

constexpr const char* kMemoryName = "trireme-board";

// Anonymous shared memory, freed with its processes. Returns a negative value on failure.
int create_anonymous(std::size_t bytes) {
  const int file = memfd_create(kMemoryName, MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

// Opens the anonymous memory of another process at the path `published`. Negative if that process has ended
// or the file is something else.
int open_anonymous(const std::string& published, std::size_t bytes) {
  const int file = open(published.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  std::error_code error;
  const auto name = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", file), error).string();
  struct stat info = {};
  const bool sound = name.find(kMemoryName) != std::string::npos && fstat(file, &info) == 0 &&
                     info.st_size == static_cast<off_t>(bytes);
  if (sound) return file;
  close(file);
  return -1;
}

// Creates a file of one line atomically. Returns false if the file exists or cannot be written.
bool publish(const std::string& file, const std::string& line, int slot) {
  const std::string written = fmt::format("{}.{}", file, slot);
  {
    std::ofstream stream(written);
    stream << line;
    stream.flush();
    if (!stream) return false;
  }
  const bool published = link(written.c_str(), file.c_str()) == 0;
  unlink(written.c_str());
  return published;
}

std::string line_of(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Maps `file` and keeps it open while the memory is in use, so that later ranks can open it. Null on failure.
std::shared_ptr<RankBoard> board_in(int file, int size) {
  if (file < 0) return nullptr;
  const std::size_t bytes = RankBoard::bytes(size);
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (start == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  const std::shared_ptr<void> held(start, [bytes, file](void* p) {
    munmap(p, bytes);
    close(file);
  });
  return std::make_shared<RankBoard>(held, size);
}

// The number of ranks of a board of `bytes` bytes; 0: not a board.
int board_size(std::size_t bytes) {
  int size = 1;
  while (RankBoard::bytes(size) < bytes) ++size;
  return RankBoard::bytes(size) == bytes ? size : 0;
}

}  // namespace

std::shared_ptr<RankBoard> open_board(const std::string& file, int size, int slot) {
  const std::size_t bytes = RankBoard::bytes(size);
  int memory_file = -1;
  std::string line = line_of(file);
  if (line.empty()) {
    memory_file = create_anonymous(bytes);
    if (memory_file < 0) return nullptr;
    if (!publish(file, fmt::format("/proc/{}/fd/{}", getpid(), memory_file), slot)) {
      close(memory_file);
      memory_file = -1;
      line = line_of(file);  // written by a faster rank
    }
  }
  if (memory_file < 0) memory_file = open_anonymous(line, bytes);
  std::shared_ptr<RankBoard> board = board_in(memory_file, size);
  return board && board->read(slot).process == 0 ? board : nullptr;
}

std::shared_ptr<RankBoard> find_board(int process, std::set<std::uint64_t>& known) {
  std::error_code error;
  const std::filesystem::path folder = fmt::format("/proc/{}/fd", process);
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry->path(), gone).string();
    struct stat info = {};
    if (gone || target.find(kMemoryName) == std::string::npos) continue;
    if (stat(entry->path().c_str(), &info) != 0 || known.contains(info.st_ino)) continue;
    const int size = board_size(static_cast<std::size_t>(info.st_size));
    if (size == 0) continue;
    const std::size_t bytes = static_cast<std::size_t>(info.st_size);
    std::shared_ptr<RankBoard> board = board_in(open_anonymous(entry->path().string(), bytes), size);
    if (!board) continue;
    known.insert(info.st_ino);
    return board;
  }
  return nullptr;
}

}  // namespace trireme
