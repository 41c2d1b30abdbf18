#include "parallel/comm/mpi_algorithms.h"

#include <mpi.h>

namespace trireme {
namespace {

constexpr const char* kAlgorithm = "coll_libnbc_iallreduce_algorithm";
constexpr int kUnset = 0;
constexpr int kRabenseifner = 3;

// The variable may be missing (another library or version), of another type, or not to be written now.
bool holds_one_int(int index) {
  int name_length = 0, description_length = 0, verbosity = 0, binding = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum values = MPI_T_ENUM_NULL;
  const int result = MPI_T_cvar_get_info(index, nullptr, &name_length, &verbosity, &type, &values, nullptr,
                                         &description_length, &binding, &scope);
  return result == MPI_SUCCESS && type == MPI_INT && binding == MPI_T_BIND_NO_OBJECT;
}

void choose_all_reduce() {
  int index = 0;
  if (MPI_T_cvar_get_index(kAlgorithm, &index) != MPI_SUCCESS || !holds_one_int(index)) return;
  MPI_T_cvar_handle handle = nullptr;
  int count = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return;
  int algorithm = kUnset;
  const bool is_unset =
      count == 1 && MPI_T_cvar_read(handle, &algorithm) == MPI_SUCCESS && algorithm == kUnset;
  if (is_unset) MPI_T_cvar_write(handle, &kRabenseifner);
  MPI_T_cvar_handle_free(&handle);
}

}  // namespace

void choose_mpi_algorithms() {
  // As MPI was started: Open MPI 4.1 takes the level requested here as that of all MPI.
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (MPI_T_init_thread(level, &level) != MPI_SUCCESS) return;
  choose_all_reduce();
  MPI_T_finalize();
}

}  // namespace trireme
