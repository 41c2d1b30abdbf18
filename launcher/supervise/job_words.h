// What an attempt left behind for its supervisor to read: how far it came, and its last words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

/// The step of the last whole line of metrics.jsonl; 0 where there is none.
std::int64_t last_step(const std::filesystem::path& metrics);

/// The step of the checkpoint that the job says it goes on from, which is not the newest of the files where
/// that is damaged, or hosts had a newer one in memory; nothing where it has not come so far.
std::optional<std::int64_t> resumed_step(const std::filesystem::path& log);

/// The job's own error with the lines that belong to it, else mpirun's word on the rank that ended,
/// or on its options; or empty.
std::string verdict_of(const std::filesystem::path& log);

/// True if mpirun has started nothing: it does not know an option.
bool is_refusal_of_mpirun(const std::string& verdict);

}  // namespace trireme
