// What an attempt left behind for its supervisor to read: how far it came, and its last words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme {

/// The step of the last whole line of metrics.jsonl; 0 where there is none.
std::int64_t last_step(const std::filesystem::path& metrics);

/// The job's own error with the lines that belong to it, else mpirun's word on the rank that ended; or empty.
std::string verdict_of(const std::filesystem::path& log);

}  // namespace trireme
