// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A predicate that a function borrows for one call. With it, waits that take any lambda are
// ordinary functions. It allocates nothing.
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
