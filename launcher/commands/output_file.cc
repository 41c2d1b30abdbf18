#include "launcher/commands/output_file.h"

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"

namespace trireme {

void check_can_be_written(const char* option, const std::string& file) {
  try {
    const AtomicFile probe(file);  // goes again
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidInput, "{} {}: {}", option, file, error.what());
  }
}

}  // namespace trireme
