// Runs a program and returns its output.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace trireme {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal if a signal ended it
  std::string out, err;
};

/// Waits for the program to end. Standard output and error go to files in `scratch`, which is also the
/// working folder.
inline ProgramResult run_program(const std::vector<std::string>& command,
                                 const testing::TemporaryFolder& scratch) {
  const auto out = scratch / "stdout.txt", err = scratch / "stderr.txt";
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const int out_fd = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const int err_fd = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (out_fd < 0 || err_fd < 0 || chdir(scratch.path().c_str()) != 0) _exit(126);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  ProgramResult result{.out = testing::read_file(out), .err = testing::read_file(err)};
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace trireme
