// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A predicate that is only borrowed for a call: it makes waits that take any lambda ordinary
// functions, and allocates nothing.
#pragma once

#include <type_traits>

namespace ddpbench::comm {

class PredicateRef {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, PredicateRef>)
      PredicateRef(F&& f)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object) -> bool {
          return (*static_cast<std::remove_reference_t<F>*>(object))();
        }) {}
  bool operator()() const { return call_(object_); }

 private:
  void* object_;
  bool (*call_)(void*);
};

}  // namespace ddpbench::comm
