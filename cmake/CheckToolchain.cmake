# Says in words what is missing before find_package() says it in CMake's.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('include'))"
  OUTPUT_VARIABLE _include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(_include AND NOT EXISTS "${_include}/Python.h")
  message(FATAL_ERROR
    "Python.h is missing (looked in ${_include}).\n"
    "  Debian, Ubuntu:  apt-get install python3-dev\n"
    "  Fedora, RHEL:    dnf install python3-devel")
endif()
