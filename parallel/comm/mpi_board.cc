#include "parallel/comm/mpi_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace trireme {
namespace {

// Null if the memory is unavailable.
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

}  // namespace

// If the ranks are on two boards, each board has empty lines.
bool is_common_board(MPI_Comm node, const RankStatus* status) {
  int size = 1;
  MPI_Comm_size(node, &size);
  MPI_Barrier(node);  // now every line is filled
  int mine = status != nullptr && status->board().size() == size && status->board().is_full() ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, node);
  return all == 1;
}

// The name is unlinked after every rank has opened it, so that it never outlives the job.
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
  MPI_Barrier(node);  // now every line is filled
  return status;
}

}  // namespace trireme
