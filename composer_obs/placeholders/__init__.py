"""Are the file-name templates right?"""
