// Lists the functions that a backend lacks.
#pragma once

#include <set>
#include <string>

#include "kernels/backend.h"

namespace trireme {

/// The names of a table's null entries: functions by member, kernels by the name of their op.
inline std::set<std::string> missing_entries(const Backend& backend) {
  std::set<std::string> missing;
  int num_functions = 0;
  const auto look = [&](const char* name, auto function) {
    ++num_functions;
    if (function == nullptr) missing.insert(name);
  };
  look("examine_devices", backend.examine_devices);
  look("free_bytes", backend.free_bytes);
  look("arithmetic", backend.arithmetic);
  look("make_memory_source", backend.make_memory_source);
  look("make_stream", backend.make_stream);
  look("make_host_copy", backend.make_host_copy);
  look("native_stream", backend.native_stream);
  look("prepare_uploads", backend.prepare_uploads);
  look("copy_from_host", backend.copy_from_host);
  look("copy_to_host", backend.copy_to_host);
  look("copy", backend.copy);
  look("fill_zero", backend.fill_zero);
  look("synchronize", backend.synchronize);
  look("product_choices", backend.product_choices);
  look("begin_capture", backend.begin_capture);
  look("end_capture", backend.end_capture);
  look("launch_graph", backend.launch_graph);
  look("bind_thread", backend.bind_thread);
  AllOps::for_each([&]<class Args>(Op<Args>) {
    if (backend.ops.get<Args>() == nullptr) missing.insert(Args::kName);
  });
  // Detects a function that the list above lacks.
  if (sizeof(Backend) != sizeof(backend.name) + num_functions * sizeof(void (*)()) + sizeof(backend.ops) +
                             sizeof(backend.logits_alignment)) {
    missing.insert("(missing_entries.h does not name all functions of Backend)");
  }
  return missing;
}

}  // namespace trireme
