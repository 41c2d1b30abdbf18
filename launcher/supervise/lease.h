// Ensures that only one supervisor at a time uses an output folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace trireme {

/// Holds `folder`/.supervisor during its lifetime: locked (flock), with the mark of this process. The kernel
/// releases the lock when the process ends for any reason. Network file systems may not support locks: there,
/// the mark of another host is valid until its lease expires; renew() extends it.
class Lease {
 public:
  static constexpr std::chrono::seconds kLease{30};
  static constexpr const char* kFile = ".supervisor";  // in the output folder

  /// Throws Error(kInvalidInput) with process and host of the supervisor that holds the folder.
  explicit Lease(const std::filesystem::path& folder);
  /// Clears the mark.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Call several times within kLease.
  void renew() noexcept;

 private:
  int fd_ = -1;
};

/// Describes a mark (runtime/checkpoint/writer_mark.h): "process 4711 on host-a".
std::string describe_mark(const std::string& mark);

}  // namespace trireme
