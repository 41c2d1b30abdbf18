#include "launcher/train/shared_output.h"

#include "launcher/host/agreement.h"
#include "launcher/host/machine.h"
#include "runtime/base/atomic_file.h"
#include "runtime/checkpoint/pending_folder.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {

void check_shared_output(Communicator& comm, const std::filesystem::path& root) {
  const bool is_first = comm.rank() == 0;
  // The name is new to every host, because network file systems cache the absence of a name.
  const std::string name = text_of_rank(comm, 0, is_first ? ".seen-" + writer_mark() : "");
  const std::filesystem::path mark = root / name;
  run_stage(comm, [&] {
    if (is_first) write_text_file(mark, "written by a job to test which hosts see this folder\n");
  });
  const auto look = [&] {
    TRIREME_CHECK(
        exists(mark),
        "host {} does not see what rank 0 writes into {}: every rank writes its part of a checkpoint "
        "there, and reads checkpoints; put the output folder on a file system that all hosts share",
        host_name(), root.string());
  };
  try {
    run_stage(comm, look);
  } catch (const AgreedError&) {
    if (is_first) remove_or_log(mark);
    throw;
  }
  if (is_first) remove_or_log(mark);
}

}  // namespace trireme
