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
/// or its refusal; or empty.
std::string verdict_of(const std::filesystem::path& log);

/// The reason why mpirun has started nothing and would not the next time, with what to do: it runs as root,
/// it has fewer slots than ranks, or it does not know an option. Empty where it has not refused.
std::string refusal_of_mpirun(const std::filesystem::path& log);

/// True of a verdict that is such a refusal.
bool is_refusal_of_mpirun(const std::string& verdict);

}  // namespace trireme
