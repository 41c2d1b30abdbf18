// Calls C libraries that exit by longjmp, safely from C++.
//
// [Note: longjmp] libjpeg and libpng report errors through a callback that must not return. An exception may
// not cross their frames, and a longjmp may not skip a destructor. So every call into them is in a plain
// function whose locals have no destructors, and completes() runs that function. Its inputs and results are
// in a session object owned by the caller.
#pragma once

#include <csetjmp>

namespace trireme {

/// Runs work(session). Returns false if it exited by std::longjmp(session.escape, 1).
template <class Session>
bool completes(void (*work)(Session&), Session& session) {
  if (setjmp(session.escape) != 0) return false;
  work(session);
  return true;
}

}  // namespace trireme
