// Flips one bit in a message that a rank sends, or in gradients that it has received. Preloaded before MPI
// (LD_PRELOAD), so that all messages pass through it. The order is a file named by TRIREME_BIT_FLIP, which
// takes effect as soon as it exists:
//
//     RANK message NUMBER     in the next large message to another rank, after the sender has posted it
//     RANK gradient NUMBER    in gradients that were summed over the ranks and have arrived, before their
//     use
//
// NUMBER selects the bit. The rank that executes the order renames the file to FILE.done.
#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kLargeBytes = 1024;  // smaller messages are values that ranks agree on

struct Order {
  bool there = false;
  std::string kind;
  std::uint64_t number = 0;
};

// Large results of an all-gather: gradients, if parameters are not sharded.
struct Gathered {
  MPI_Request request = nullptr;
  char* first = nullptr;
  std::int64_t bytes = 0;
};
std::vector<Gathered> under_way;
Gathered arrived;  // the last one waited for in this step

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

const char* file_of_order() {
  return std::getenv("TRIREME_BIT_FLIP");
}

/// The order for this rank.
Order order() {
  const char* path = file_of_order();
  FILE* file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return {};
  int rank = -1;
  char kind[16] = "";
  unsigned long number = 0;
  const bool whole = std::fscanf(file, "%d %15s %lu", &rank, kind, &number) == 3;
  std::fclose(file);
  const char* own = std::getenv("OMPI_COMM_WORLD_RANK");
  return {.there = whole && own != nullptr && std::atoi(own) == rank, .kind = kind, .number = number};
}

void note_done() {
  const std::string path = file_of_order();
  std::rename(path.c_str(), (path + ".done").c_str());
}

// Flips a bit of one fp32 in `bytes` bytes; the change may be as small as noise or as large as possible.
void flip(char* first, std::int64_t bytes, std::uint64_t number) {
  const std::int64_t element = static_cast<std::int64_t>(number % static_cast<std::uint64_t>(bytes / 4));
  const int bit = 8 + static_cast<int>(number / 7 % 23);
  first[4 * element + bit / 8] = static_cast<char>(first[4 * element + bit / 8] ^ (1 << bit % 8));
}

std::int64_t bytes_of(std::int64_t count, MPI_Datatype type) {
  int size = 0;
  next<int (*)(MPI_Datatype, int*)>("MPI_Type_size")(type, &size);
  return count * size;
}

int number_from(const char* call, MPI_Comm comm) {
  int number = 0;
  next<int (*)(MPI_Comm, int*)>(call)(comm, &number);
  return number;
}

/// Returns `buffer` of `all` bytes, or a copy with a flipped bit in [first, first + bytes). The copy is never
/// freed, because the end of the transfer is not known here.
const void* sent(const void* buffer, std::int64_t all, std::int64_t first, std::int64_t bytes) {
  if (bytes < kLargeBytes || buffer == MPI_IN_PLACE) return buffer;
  const Order order = ::order();
  if (!order.there || order.kind != "message") return buffer;
  auto* copy = static_cast<char*>(std::malloc(static_cast<std::size_t>(all)));
  if (copy == nullptr) return buffer;
  std::memcpy(copy, buffer, static_cast<std::size_t>(all));
  flip(copy + first, bytes, order.number);
  note_done();
  return copy;
}

// Called at the next MPI call: by then the checks of earlier results are done.
void flip_what_has_arrived() {
  if (arrived.first == nullptr) return;
  const Order order = ::order();
  if (!order.there || order.kind != "gradient") return;
  flip(arrived.first, arrived.bytes, order.number);
  note_done();
}

void note_arrival(MPI_Request request) {
  const auto one = std::find_if(under_way.begin(), under_way.end(),
                                [&](const Gathered& gathered) { return gathered.request == request; });
  if (one == under_way.end()) return;
  arrived = *one;
  under_way.erase(one);
}

}  // namespace

extern "C" {

int MPI_Ialltoall(const void* in, int count, MPI_Datatype type, void* out, int out_count,
                  MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  flip_what_has_arrived();
  const std::int64_t piece = bytes_of(count, type);
  const int size = number_from("MPI_Comm_size", comm);
  const int peer = (number_from("MPI_Comm_rank", comm) + 1) % size;
  const void* from = size > 1 ? sent(in, size * piece, peer * piece, piece) : in;
  return next<decltype(&MPI_Ialltoall)>("MPI_Ialltoall")(from, count, type, out, out_count, out_type, comm,
                                                         request);
}

int MPI_Iallgather(const void* in, int count, MPI_Datatype type, void* out, int out_count,
                   MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  const std::int64_t piece = bytes_of(out_count, out_type);
  // The report that ends a step, if ranks share cores: gradients have been used. MPI_BYTE is a symbol of a
  // library that not all programs link.
  if (bytes_of(1, out_type) == 1 && piece < kLargeBytes)
    arrived = {};
  else
    flip_what_has_arrived();
  const int size = number_from("MPI_Comm_size", comm);
  const void* from = size > 1 ? sent(in, piece, 0, piece) : in;
  const int result = next<decltype(&MPI_Iallgather)>("MPI_Iallgather")(from, count, type, out, out_count,
                                                                       out_type, comm, request);
  if (piece >= kLargeBytes)
    under_way.push_back({.request = *request, .first = static_cast<char*>(out), .bytes = piece * size});
  return result;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  flip_what_has_arrived();
  note_arrival(*request);
  return next<decltype(&MPI_Wait)>("MPI_Wait")(request, status);
}

// Used by ranks that sleep while they wait.
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  flip_what_has_arrived();
  const MPI_Request asked = *request;
  const int result = next<decltype(&MPI_Test)>("MPI_Test")(request, done, status);
  if (*done != 0) note_arrival(asked);
  return result;
}

// The report that ends a step: gradients have been used.
int MPI_Allgather(const void* in, int count, MPI_Datatype type, void* out, int out_count,
                  MPI_Datatype out_type, MPI_Comm comm) {
  arrived = {};
  return next<decltype(&MPI_Allgather)>("MPI_Allgather")(in, count, type, out, out_count, out_type, comm);
}

int MPI_Isend(const void* in, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const std::int64_t bytes = bytes_of(count, type);
  return next<decltype(&MPI_Isend)>("MPI_Isend")(sent(in, bytes, 0, bytes), count, type, peer, tag, comm,
                                                 request);
}

}  // extern "C"
