// Flips one bit of what a rank sends, or of gradients that it has received: loaded before MPI (LD_PRELOAD),
// where all messages pass by. What is to flip stands in a file that TRIREME_BIT_FLIP names, as soon as it is
// there:
//
//     RANK message NUMBER     of the next large message to another rank, after its sender has let go of it
//     RANK gradient NUMBER    of a gradient after its sum, once all of the step's are summed up
//
// NUMBER chooses the bit. Who does it moves the file to FILE.done.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::int64_t kLargeBytes = 1024;  // others are numbers that ranks agree on

struct Order {
  bool there = false;
  std::string kind;
  std::uint64_t number = 0;
};

// The last two results of a gather that were large: the one before the last has arrived when something small
// follows.
struct Gathered {
  char* first = nullptr;
  std::int64_t bytes = 0;
} last, one_before;

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

const char* file_of_order() {
  return std::getenv("TRIREME_BIT_FLIP");
}

/// What is asked of this rank.
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

// Of an fp32 in `bytes` bytes: one that is no more than noise, or as large as can be.
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

/// `all` bytes from `buffer`, or a copy in which a bit of [first, first + bytes) has flipped; it is never
/// freed, as nobody here knows when it is sent.
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

void follows_something_small() {
  if (one_before.first == nullptr) return;
  const Order order = ::order();
  if (!order.there || order.kind != "gradient") return;
  flip(one_before.first, one_before.bytes, order.number);
  note_done();
}

}  // namespace

extern "C" {

int MPI_Ialltoall(const void* in, int count, MPI_Datatype type, void* out, int out_count,
                  MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  const std::int64_t piece = bytes_of(count, type);
  const int size = number_from("MPI_Comm_size", comm);
  const int peer = (number_from("MPI_Comm_rank", comm) + 1) % size;
  return next<decltype(&MPI_Ialltoall)>("MPI_Ialltoall")(
      size > 1 ? sent(in, size * piece, peer * piece, piece) : in, count, type, out, out_count, out_type,
      comm, request);
}

int MPI_Iallgather(const void* in, int count, MPI_Datatype type, void* out, int out_count,
                   MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  const std::int64_t piece = bytes_of(out_count, out_type);
  if (piece >= kLargeBytes) {
    one_before = last;
    last = {.first = static_cast<char*>(out), .bytes = piece * number_from("MPI_Comm_size", comm)};
  } else {
    follows_something_small();
  }
  const void* from = number_from("MPI_Comm_size", comm) > 1 ? sent(in, piece, 0, piece) : in;
  return next<decltype(&MPI_Iallgather)>("MPI_Iallgather")(from, count, type, out, out_count, out_type, comm,
                                                           request);
}

int MPI_Isend(const void* in, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const std::int64_t bytes = bytes_of(count, type);
  return next<decltype(&MPI_Isend)>("MPI_Isend")(sent(in, bytes, 0, bytes), count, type, peer, tag, comm,
                                                 request);
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  if (bytes_of(count, type) < kLargeBytes) follows_something_small();
  return next<decltype(&MPI_Iallreduce)>("MPI_Iallreduce")(in, out, count, type, op, comm, request);
}

}  // extern "C"
