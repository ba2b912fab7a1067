"""Poisson's equation on the unit square."""

import numpy as np
import ufl
from dolfinx import fem, mesh
from dolfinx.fem.petsc import LinearProblem
from mpi4py import MPI
from petsc4py.PETSc import ScalarType

square = mesh.create_unit_square(MPI.COMM_WORLD, 12, 12)
space = fem.FunctionSpace(square, ("Lagrange", 1))
edge = mesh.locate_entities_boundary(square, 1, lambda x: np.isclose(x[0], 0) | np.isclose(x[0], 1))
fixed = fem.dirichletbc(ScalarType(0), fem.locate_dofs_topological(space, 1, edge), space)
u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
source = fem.Constant(square, ScalarType(1))
problem = LinearProblem(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, source * v * ufl.dx, bcs=[fixed])
solution = problem.solve()
norm = MPI.COMM_WORLD.allreduce(fem.assemble_scalar(fem.form(ufl.inner(solution, solution) * ufl.dx)))
if MPI.COMM_WORLD.rank == 0:
    print(f"norm {norm:.8f}")
