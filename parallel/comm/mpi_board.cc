#include "parallel/comm/mpi_board.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace trireme {
namespace {

// Null when the memory cannot be had.
std::shared_ptr<void> map(int file, std::size_t bytes) {
  if (file < 0) return nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {memory, [bytes](void* p) { munmap(p, bytes); }};
}

// New shared memory is zero.
std::shared_ptr<void> create(const char* name, std::size_t bytes) {
  const int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  std::shared_ptr<void> memory;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) memory = map(file, bytes);
  if (file >= 0) close(file);
  return memory;
}

std::shared_ptr<void> open_existing(const char* name, std::size_t bytes) {
  const int file = shm_open(name, O_RDWR, 0);
  std::shared_ptr<void> memory = map(file, bytes);
  if (file >= 0) close(file);
  return memory;
}

constexpr const char* kMemoryName = "trireme-board";

// Memory without a name: nothing is left of it when its processes are gone. Below 0 when it cannot be had.
int create_anonymous(std::size_t bytes) {
  const int file = memfd_create(kMemoryName, MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

// Such memory of another process, as `published` has it; below 0 when that process is gone, or it is not
// that.
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

// A file of one line that is there whole or not at all. False when there is one already, or it cannot be
// written.
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
      line = line_of(file);  // of the rank that was faster
    }
  }
  if (memory_file < 0) memory_file = open_anonymous(line, bytes);
  std::shared_ptr<void> memory = map(memory_file, bytes);
  if (!memory) {
    if (memory_file >= 0) close(memory_file);
    return nullptr;
  }
  // The file stays open as long as the board: others come later.
  const std::shared_ptr<void> held(memory.get(), [memory, memory_file](void*) mutable {
    memory.reset();
    close(memory_file);
  });
  auto board = std::make_shared<RankBoard>(held, size);
  return board->read(slot).process == 0 ? board : nullptr;
}

// Ranks on two boards find lines missing.
bool is_common_board(MPI_Comm node, const RankStatus* status) {
  int size = 1;
  MPI_Comm_size(node, &size);
  MPI_Barrier(node);  // now every line is entered
  int mine = status != nullptr && status->board().size() == size && status->board().is_full() ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, node);
  return all == 1;
}

// The name is gone as soon as everybody has opened it, so that nothing is left behind by any end of the job.
std::shared_ptr<RankStatus> join_board(MPI_Comm node, int rank) {
  int slot = 0, size = 1;
  MPI_Comm_rank(node, &slot);
  MPI_Comm_size(node, &size);
  const std::size_t bytes = RankBoard::bytes(size);
  std::array<char, 64> name = {};
  std::snprintf(name.data(), name.size(), "/trireme-%d", static_cast<int>(getpid()));
  std::shared_ptr<void> memory;
  if (slot == 0) memory = create(name.data(), bytes);
  MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, node);
  if (slot != 0) memory = open_existing(name.data(), bytes);
  int mine = memory ? 1 : 0, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, node);
  if (slot == 0 && memory) shm_unlink(name.data());
  if (all == 0) return std::make_shared<RankStatus>(RankBoard::in_process(1), 0, rank);
  auto status =
      std::make_shared<RankStatus>(std::make_shared<RankBoard>(std::move(memory), size), slot, rank);
  MPI_Barrier(node);  // now every line is entered
  return status;
}

}  // namespace trireme
