"""Factorises a Laplacian of two dimensions with MUMPS."""

from petsc4py import PETSc

side = 12
size = side * side
matrix = PETSc.Mat().createAIJ([size, size], nnz=5)
first, end = matrix.getOwnershipRange()
for row in range(first, end):
    matrix[row, row] = 4.0
    for other in (row - side, row + side, *([row - 1] if row % side else []), *([row + 1] if (row + 1) % side else [])):
        if 0 <= other < size:
            matrix[row, other] = -1.0
matrix.assemble()
solution, right = matrix.createVecs()
right.set(1.0)
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("preonly")
solver.getPC().setType("lu")
solver.getPC().setFactorSolverType("mumps")
solver.solve(right, solution)
PETSc.Sys.Print(f"norm {solution.norm():.6f}")
